/*
 * Pages of trampolines, each within reach of the code that calls them, a 32-bit displacement from the
 * instruction pointer: below a program, or among the libraries. Programs do not use these addresses, unlike
 * the low 2 GiB (brk, shared memory at fixed addresses).
 */
#include <sys/mman.h>
#include "heal.h"

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000	/* Linux 4.17; before it the address is only a hint */
#endif

#define REACH 0x7ff00000ul	/* of a displacement, minus more than a page and an instruction */
#define NEAREST 0x10000ul	/* the first distance to try; each further one is twice as long */
#define LOWEST 0x10000ul	/* vm.mmap_min_addr */

/* A page is never removed. Only the holder of the lock adds one. */
#define PAGES 64
static uintptr_t pages[PAGES];
static int count;

static int reaches(uintptr_t a, uintptr_t b)
{
	return (a > b ? a - b : b - a) < REACH;
}

/* New pages at the hint, or anywhere for 0; 0 if they are not within reach. */
static uintptr_t map_at(uintptr_t wish, uintptr_t code)
{
	long page = syscall6(SYS_mmap, wish, TRAMPOLINE_BYTES, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS | (wish ? MAP_FIXED_NOREPLACE : 0), -1, 0);

	if (page < 0 && page > -PAGE_SIZE)
		return 0;
	if (reaches(page, code))
		return page;
	syscall3(SYS_munmap, page, TRAMPOLINE_BYTES, 0);
	return 0;
}

static uintptr_t make(struct task *t, uintptr_t code)
{
	uintptr_t page = map_at(0, code), start = t->map->start;

	for (uintptr_t far = NEAREST; !page && far < REACH && start > far + LOWEST; far *= 2)
		page = map_at((start - far) & -NEAREST, code);
	for (uintptr_t far = NEAREST; !page && far < REACH; far *= 2)
		page = map_at((code + far) & -NEAREST, code);
	if (!page)
		return 0;
	if (vfix_put_trampolines(t, page, &vfix_found.state) && !syscall3(SYS_mprotect, page, TRAMPOLINE_BYTES, PROT_READ | PROT_EXEC))
		return page;
	syscall3(SYS_munmap, page, TRAMPOLINE_BYTES, 0);	/* code is not allowed here */
	return 0;
}

uintptr_t vfix_near(struct task *t, const struct site *site)
{
	for (int i = 0; i < count; i++)
		if (reaches(pages[i], site->start))
			return vfix_trampoline(pages[i], site->function, EXACT);
	uintptr_t page = count < PAGES ? make(t, site->start) : 0;
	if (!page)
		return 0;
	pages[count] = page;
	__atomic_store_n(&count, count + 1, __ATOMIC_RELEASE);
	return vfix_trampoline(page, site->function, EXACT);
}

int vfix_is_near(uintptr_t address)
{
	for (int i = 0, n = __atomic_load_n(&count, __ATOMIC_ACQUIRE); i < n; i++)
		if (vfix_is_trampoline(pages[i], address))
			return 1;
	return 0;
}
