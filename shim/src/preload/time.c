/*
 * The functions of the vsyscall page, for programs that call them by name. Before the library has started,
 * they find the vDSO themselves.
 */
#include <sched.h>
#include <sys/time.h>
#include <time.h>
#include "preload.h"

static long slow(int function, uintptr_t a, uintptr_t b)
{
	vfix_start_late();
	return vfix_serve(function, a, b);
}

VFIX_PUBLIC time_t time(time_t *now)
{
	time_t (*f)(time_t *) = (void *)vfix_found.state.plain[VFIX_TIME];

	return f ? f(now) : slow(VFIX_TIME, (uintptr_t)now, 0);
}

VFIX_PUBLIC int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
	int (*f)(struct timeval *, void *) = (void *)vfix_found.state.plain[VFIX_GETTIMEOFDAY];
	int ret = f ? f(now, zone) : slow(VFIX_GETTIMEOFDAY, (uintptr_t)now, (uintptr_t)zone);

	return ret ? vfix_fail(ret) : 0;
}

/* Not with glibc's name, which exists since 2.29: an older program may have its own getcpu. */
static int get_cpu(unsigned *cpu, unsigned *node)
{
	int (*f)(unsigned *, unsigned *, void *) = (void *)vfix_found.state.plain[VFIX_GETCPU];
	int ret = f ? f(cpu, node, 0) : slow(VFIX_GETCPU, (uintptr_t)cpu, (uintptr_t)node);

	return ret ? vfix_fail(ret) : 0;
}

VFIX_PUBLIC int sched_getcpu(void)
{
	unsigned cpu;
	int ret = get_cpu(&cpu, 0);

	return ret ? ret : (int)cpu;
}
