/* The stand-in of this process, the page that replaces the vsyscall page (fallback.h). */
#include <sys/mman.h>
#include "preload.h"

uintptr_t vfix_vdso;

static uintptr_t page;
static int refused;

long vfix_call(pid_t self, long number, long a, long b, long c, long d)
{
	(void)self;
	return syscall6(number, a, b, c, d, -1, 0);
}

void vfix_fill(pid_t self, uintptr_t to, const void *from, size_t bytes)
{
	(void)self;
	for (size_t i = 0; i < bytes / sizeof(uint64_t); i++)
		((volatile uint64_t *)to)[i] = ((const uint64_t *)from)[i];
}

int vfix_seal(uintptr_t at)
{
	return !syscall3(SYS_mprotect, (long)at, PAGE_BYTES, PROT_READ | PROT_EXEC);
}

/* A function is in the vDSO, or one of this library's stubs. */
static uintptr_t make(void)
{
	uintptr_t target[VFIX_FUNCTIONS], at;
	struct vfix_state found;

	vfix_vdso_lookup(vfix_vdso, &found);
	for (int i = 0; i < VFIX_FUNCTIONS; i++)
		target[i] = found.plain[i] ? found.plain[i] : (uintptr_t)vfix_stubs + (uintptr_t)i * STUB_BYTES;
	at = vfix_map_stand_in(SELF, PROT_READ | PROT_WRITE, target);
	return at && vfix_seal(at) ? at : 0;
}

/* Two threads may make one each: the first that is ready counts, the other one stays unused. */
uintptr_t vfix_page(void)
{
	uintptr_t have = __atomic_load_n(&page, __ATOMIC_ACQUIRE), made;

	if (have || refused)
		return have;
	made = make();
	if (!made)
		refused = 1;
	else if (!__atomic_compare_exchange_n(&page, &have, made, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
		return have;
	return made;
}
