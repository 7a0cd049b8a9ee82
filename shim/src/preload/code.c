/*
 * Changing code that other threads may be running:
 *
 *	1. hlt, one byte, over the first byte of each instruction: it faults, and the handler
 *	   does what the instruction did (vfix_on_change)
 *	2. every processor that runs the program is told that its code has changed (membarrier(2))
 *	3. the rest of each instruction; 2. again; then its first byte
 *
 * So no processor ever sees half of a change, wherever it stands. The kernel writes through
 * /proc/self/mem into a private copy of the page, which never becomes writable. Where that is
 * refused the page is made writable for the moment of the store, and then as it was.
 */
#include <sys/mman.h>
#include "heal.h"

#define HLT 0xf4	/* SDM: privileged, #GP, which Linux tells as SIGSEGV with SI_KERNEL */
#define MOV32 7		/* bytes of lea and of the mov that it replaces */

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

/* Neither can fault by itself. */
static int names_a_stub(const volatile unsigned char *code)
{
	uintptr_t at = (uintptr_t)code;

	if (code[0] == 0xe8)
		return vfix_is_near(at + 5 + *(const volatile int32_t *)(code + 1));
	return (code[0] & ~4) == 0x48 && code[1] == 0x8d && (code[2] & 0xc7) == 0x05 &&
		vfix_is_near(at + MOV32 + *(const volatile int32_t *)(code + 3));
}

int vfix_stand_in(greg_t *regs)
{
	static const unsigned char index[16] = {
		REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP, REG_RSI, REG_RDI,
		REG_R8, REG_R9, REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15,
	};
	const volatile unsigned char *code = (void *)regs[REG_RIP];

	for (int i = 0, n = __atomic_load_n(&vfix_site_count, __ATOMIC_ACQUIRE); i < n; i++) {
		const volatile struct site *s = &vfix_sites[i];
		int reg = s->reg, length = s->length;
		uintptr_t entry = VFIX_PAGE + s->function * ENTRY_SIZE;

		if (*code != HLT || s->start != (uintptr_t)code)
			continue;
		if (reg == DIRECT_CALL) {
			regs[REG_RSP] -= sizeof(uintptr_t);
			*(uintptr_t *)regs[REG_RSP] = regs[REG_RIP] + length;
			regs[REG_RIP] = entry;
		} else {
			regs[index[reg]] = entry;
			regs[REG_RIP] += length;
		}
		return 1;
	}
	return *code != HLT && names_a_stub(code) ? -1 : 0;
}
