/*
 * Changing code that other threads may be running:
 *
 *	1. hlt, one byte, over the first byte of each instruction: it faults, and the handler
 *	   does what the instruction did (meet.c)
 *	2. every processor that runs the program is told that its code has changed (membarrier(2))
 *	3. the rest of each instruction; 2. again; then its first byte
 *
 * So no processor ever sees half of a change, wherever it stands. The kernel writes through
 * /proc/self/mem into a private copy of the page, which never becomes writable. Where that is
 * refused the page is made writable for the moment of the store, and then as it was.
 */
#include <sys/mman.h>
#include "heal.h"

struct site vfix_sites[SITES];
int vfix_site_count;
static volatile int unfinished;	/* seen by a child that is forked meanwhile */

static void put32(unsigned char *to, uint32_t value)
{
	for (int i = 0; i < 4; i++)
		to[i] = value >> 8 * i;
}

void vfix_add_site(struct site *site, uintptr_t stub)
{
	unsigned char *code = site->code;

	if (site->reg == DIRECT_CALL) {
		code[0] = 0xe8;			/* call stub */
		put32(code + 1, stub - site->start - site->length);
	} else {
		code[0] = site->reg < 8 ? 0x48 : 0x4c;
		code[1] = 0x8d;			/* lea stub(%rip), %reg */
		code[2] = 0x05 | (site->reg & 7) << 3;
		put32(code + 3, stub - site->start - MOV32);
		code[7] = 0x0f;			/* nopl (%rax), where the mov had 10 bytes */
		code[8] = 0x1f;
		code[9] = 0x00;
	}
	vfix_sites[vfix_site_count] = *site;
	__atomic_store_n(&vfix_site_count, vfix_site_count + 1, __ATOMIC_RELEASE);
}

static int write_directly(const struct mapping *map, uintptr_t address, const unsigned char *bytes, int n)
{
	uintptr_t page = address & -PAGE_SIZE, length = address + n - page > PAGE_SIZE ? 2 * PAGE_SIZE : PAGE_SIZE;
	int protection = (map->readable ? PROT_READ : 0) | (map->executable ? PROT_EXEC : 0) | (map->writable ? PROT_WRITE : 0);

	if (!map->writable && syscall3(SYS_mprotect, page, length, protection | PROT_WRITE))
		return 0;
	for (int i = 0; i < n; i++)
		((volatile unsigned char *)address)[i] = bytes[i];
	if (!map->writable)
		syscall3(SYS_mprotect, page, length, protection);
	return 1;
}

static int put(long memory, const struct mapping *map, uintptr_t address, const unsigned char *bytes, int n)
{
	return syscall4(SYS_pwrite64, memory, (long)bytes, n, address) == n || write_directly(map, address, bytes, n);
}

/* Threads besides the one that asked and this one; a link of the folder is one's, two its own. */
static int are_others(void)
{
	unsigned long stat[24];	/* struct stat of x86-64: st_nlink is the third word */

	return syscall3(SYS_stat, (long)"/proc/self/task", (long)stat, 0) || stat[2] > 2 + 2;
}

static int sync_cores(void)
{
	return !syscall3(SYS_membarrier, MEMBARRIER_SYNC_CORE, 0, 0) || !are_others();
}

int vfix_write_sites(long memory, const struct mapping *map)
{
	const struct site *s = vfix_sites;
	const unsigned char hlt = HLT;

	if (!sync_cores())
		return 0;
	unfinished = 1;
	if (!put(memory, map, s->start, &hlt, sizeof hlt))
		return unfinished = 0;
	for (int i = 1; i < vfix_site_count; i++)
		put(memory, map, s[i].start, &hlt, sizeof hlt);
	sync_cores();
	for (int i = 0; i < vfix_site_count; i++)
		put(memory, map, s[i].start + 1, s[i].code + 1, s[i].length - 1);
	sync_cores();
	for (int i = 0; i < vfix_site_count; i++)
		put(memory, map, s[i].start, s[i].code, 1);
	unfinished = 0;
	return 1;
}

void vfix_finish_sites(long memory)
{
	struct mapping map;

	if (unfinished && vfix_find_mapping(vfix_sites->start, &map))
		vfix_write_sites(memory, &map);
}
