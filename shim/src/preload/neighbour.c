/*
 * A page below 2 GiB that serves what the vsyscall page served, at an address that differs
 * from its in the high byte of a 32-bit immediate alone:
 *
 *	mov $0xffffffffff600400, %rax	48 c7 c0 00 04 60 ff
 *	mov $0x7f600400, %rax		48 c7 c0 00 04 60 7f
 *
 * So one byte heals a call site: no other processor can ever see half of the change, however
 * the site is aligned, and every instruction stays where it was and as long as it was.
 */
#include <sys/mman.h>
#include "heal.h"

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

/* From the top of the 2 GiB down to the first megabytes, which programs are linked at. */
#define FIRST_TOP 0x7f
#define LAST_TOP 0x08

/* One page of each kind: 0 none yet, BUSY while one thread makes it, NEVER, or its top byte. */
enum { BUSY = 0x100, NEVER };
static int pages[2];

/* Copies a stub, the vDSO's function in its hole, to the entry. */
static void place(char *entry, const char *stub, const char *hole, const char *end, uintptr_t function)
{
	for (const char *c = stub; c < end; c++)
		*(volatile char *)entry++ = *c;
	*(volatile uintptr_t *)(entry - (end - hole)) = function;
}

static void fill(char *page, int plain)
{
	for (int i = 0; i < PAGE_SIZE; i++)
		((volatile char *)page)[i] = 0xcc;	/* int3 */
	for (int i = 0; i < VFIX_FUNCTIONS; i++) {
		if (plain)
			place(page + i * ENTRY_SIZE, vfix_stub_plain, vfix_stub_plain_hole, vfix_stub_plain_end, vfix_found[i]);
		else
			place(page + i * ENTRY_SIZE, vfix_stub_keep, vfix_stub_keep_hole, vfix_stub_keep_end, vfix_found[i]);
	}
}

/* Maps a page where the kernel lets it; kernels before 4.17 take the address as a wish. */
static int make(int plain)
{
	for (long top = FIRST_TOP; top >= LAST_TOP; top--) {
		long wanted = top << 24 | (VFIX_PAGE & LOW_BYTES);
		long page = syscall6(SYS_mmap, wanted, PAGE_SIZE, PROT_READ | PROT_WRITE,
				     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);

		if (page < 0 && page > -PAGE_SIZE)
			continue;
		if (page == wanted) {
			fill((char *)page, plain);
			if (!syscall3(SYS_mprotect, page, PAGE_SIZE, PROT_READ | PROT_EXEC))
				return top;
			top = 0;	/* no code may be made here */
		}
		syscall3(SYS_munmap, page, PAGE_SIZE, 0);
	}
	return NEVER;
}

int vfix_neighbour(int plain)
{
	int top = 0;

	if (__atomic_compare_exchange_n(&pages[plain], &top, BUSY, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
		top = make(plain);
		__atomic_store_n(&pages[plain], top, __ATOMIC_RELEASE);
	}
	return top == BUSY ? -1 : top == NEVER ? 0 : top;
}
