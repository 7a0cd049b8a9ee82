/*
 * Finds, from the address that a call returned to, where its code holds the entry's address.
 * That instruction becomes one of the same length that names a stub.
 */
#include "heal.h"

#define BEHIND 64	/* bytes before the return address that are searched */

/* Code, read through the kernel: it does not fault where nothing is mapped. */
struct code {
	unsigned char bytes[BEHIND];	/* the last n of them were read */
	int n;
};

/* The bytes before the address, those of its page at least. */
static int read_before(long memory, uintptr_t address, struct code *code)
{
	int in_page = (address - 1) % PAGE_SIZE + 1;

	code->n = BEHIND;
	while (syscall4(SYS_pread64, memory, (long)(code->bytes + BEHIND - code->n), code->n, address - code->n) != code->n) {
		if (code->n <= in_page)
			return 0;
		code->n = in_page;
	}
	return 1;
}

static int32_t imm32(const unsigned char *p)
{
	return p[0] | p[1] << 8 | p[2] << 16 | (uint32_t)p[3] << 24;
}

/* Whether the instruction at p, whose address is at, loads the entry, or a stub, into the register. */
static enum healing loads(const unsigned char *p, const unsigned char *end, uintptr_t at, int reg, uintptr_t entry, struct site *site)
{
	unsigned char low = reg & 7;

	if (p[0] == (reg < 8 ? 0x48 : 0x49)) {
		if (p[1] == 0xc7 && p[2] == (0xc0 | low) && imm32(p + 3) == (int32_t)entry) {
			*site = (struct site){ .start = at, .length = 7, .reg = reg };
			return FOUND;
		}
		if (end - p >= 10 && p[1] == (0xb8 | low) && imm32(p + 2) == (int32_t)entry && imm32(p + 6) == -1) {
			*site = (struct site){ .start = at, .length = 10, .reg = reg };
			return FOUND;
		}
	}
	if (p[0] == (reg < 8 ? 0x48 : 0x4c) && p[1] == 0x8d && p[2] == (0x05 | low << 3) && vfix_is_near(at + 7 + imm32(p + 3)))
		return HEALED_BEFORE;
	return NEVER_HEALED;
}

/* The nearest such instruction before end. */
static enum healing find_mov(const struct code *code, const unsigned char *end, uintptr_t end_address, int reg, uintptr_t entry, struct site *site)
{
	for (const unsigned char *p = end - 7; p >= code->bytes + BEHIND - code->n; p--) {
		enum healing found = loads(p, end, end_address - (end - p), reg, entry, site);

		if (found != NEVER_HEALED)
			return found;
	}
	return NEVER_HEALED;
}

/* The register of a `call *%reg` (ff /2) or `jmp *%reg` (ff /4) that ends there, or -1; its
 * length is stored. */
static int register_of(const unsigned char *end, unsigned char opcode, int *length)
{
	if (end[-2] != 0xff || (end[-1] & 0xf8) != opcode)
		return -1;
	*length = end[-3] == 0x41 ? 3 : 2;
	return (end[-1] & 7) + (end[-3] == 0x41 ? 8 : 0);
}

/* A function that is `mov $entry,%reg; jmp *%reg`, called with a direct call. */
static enum healing find_tail(long memory, uintptr_t start, uintptr_t entry, struct site *site)
{
	struct code code = { .n = 0 };
	const unsigned char *end = code.bytes + BEHIND;
	int length, reg;

	for (int size = 9; size <= 10; size++) {
		code.n = size;
		if (syscall4(SYS_pread64, memory, (long)(end - size), size, start) != size)
			return NEVER_HEALED;
		reg = register_of(end, 0xe0, &length);
		if (reg < 0 || length != size - 7)
			continue;
		enum healing found = loads(end - size, end - length, start, reg, entry, site);
		site->plain = 1;
		if (found != NEVER_HEALED)
			return found;
	}
	return NEVER_HEALED;
}

/* The call that returns to ra, by its last bytes. */
static enum healing find_call(long memory, uintptr_t ra, uintptr_t entry, struct site *site)
{
	struct code code;
	const unsigned char *end = code.bytes + BEHIND;
	enum healing found = NEVER_HEALED;
	int length, reg;

	if (!read_before(memory, ra, &code) || code.n < 5)
		return NEVER_HEALED;
	reg = register_of(end, 0xd0, &length);
	if (reg >= 0)
		found = find_mov(&code, end - length, ra - length, reg, entry, site);
	if (found == FOUND && site->start + site->length + length == ra)
		site->plain = vfix_is_stub(memory, site->start);
	if (found != NEVER_HEALED || end[-5] != 0xe8)	/* call rel32 */
		return found;
	uintptr_t target = ra + imm32(end - 4);
	if (target != entry)
		return find_tail(memory, target, entry, site);
	*site = (struct site){ .start = ra - 5, .length = 5, .reg = DIRECT_CALL };
	return FOUND;
}

enum healing vfix_find_site(long memory, uintptr_t ra, int function, struct site *site)
{
	enum healing found = find_call(memory, ra, VFIX_PAGE + function * ENTRY_SIZE, site);

	site->function = function;
	site->ra = ra;
	return found;
}
