/* Serves a call of the page: the vDSO's function, or else the kernel's. */
#include <errno.h>
#include "preload.h"

/* The page crashes on a bad pointer; the system call returns EFAULT. */
static void touch(uintptr_t address)
{
	if (address)
		*(volatile char *)address = *(volatile char *)address;
}

static long ask_kernel(int function, uintptr_t a, uintptr_t b)
{
	static const short number[VFIX_FUNCTIONS] = {
		[VFIX_GETTIMEOFDAY] = SYS_gettimeofday,
		[VFIX_TIME] = SYS_time,
		[VFIX_GETCPU] = SYS_getcpu,
	};
	long ret = syscall3(number[function], a, b, 0);

	if (ret == -EFAULT) {
		touch(a);
		if (function != VFIX_TIME)
			touch(b);
	}
	return ret;
}

long vfix_serve(int function, uintptr_t a, uintptr_t b)
{
	if (!vfix_found.state.plain[function])
		return ask_kernel(function, a, b);
	if (function == VFIX_TIME)
		return ((long (*)(uintptr_t))vfix_found.state.plain[function])(a);
	return ((int (*)(uintptr_t, uintptr_t, uintptr_t))vfix_found.state.plain[function])(a, b, 0);
}
