/*
 * Finds, from the address that a call returned to, where its code holds the entry's address.
 * Each form keeps all instructions as they are; what changes is the address that they name.
 */
#include "heal.h"

#define BEHIND 64	/* bytes before the return address that are searched */
#define AHEAD 5

/* Code, read through the kernel: it does not fault where nothing is mapped. */
struct code {
	unsigned char bytes[BEHIND];	/* the last n of them were read */
	int n;
};

/* The bytes before the address, those of its page at least. */
static int read_before(int memory, uintptr_t address, struct code *code)
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

/*
 * The nearest mov of the entry's address to the register, before end. The last byte of an
 * imm32 is its high byte; an imm64 can be changed where it is one aligned word.
 */
static enum healing find_mov(const struct code *code, const unsigned char *end, uintptr_t end_address, int reg, uintptr_t entry, struct site *site)
{
	unsigned char rex = reg < 8 ? 0x48 : 0x49, low = reg & 7;

	for (const unsigned char *p = end - 7; p >= code->bytes + BEHIND - code->n; p--) {
		uintptr_t at = end_address - (end - p);

		if (p[0] == rex && p[1] == 0xc7 && p[2] == (0xc0 | low) && !((imm32(p + 3) ^ entry) & LOW_BYTES)) {
			*site = (struct site){ .address = at + 6, .length = 1 };
			return imm32(p + 3) == (int32_t)entry ? FOUND : HEALED_BEFORE;
		}
		if (p[0] == rex && p[1] == (0xb8 | low) && end - p >= 10 && imm32(p + 2) == (int32_t)entry && imm32(p + 6) == -1) {
			*site = (struct site){ .address = at + 2, .length = 8, .bytes = entry & LOW_BYTES };
			return (at + 2) % 8 == 0 ? FOUND : NEVER_HEALED;
		}
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

/* [sub $8,%rsp] mov call [add $8,%rsp] ret: nothing but C calls that, and expects no register
 * to be kept. So the rewriter has it too. */
static int is_stub(int memory, const unsigned char *mov, int room, uintptr_t ra)
{
	unsigned char after[AHEAD];

	return room >= 4 && imm32(mov - 4) == 0x08ec8348 &&
		syscall4(SYS_pread64, memory, (long)after, sizeof after, ra) == sizeof after &&
		imm32(after) == 0x08c48348 && after[4] == 0xc3;
}

/* A function that is `mov $entry,%reg; jmp *%reg`, called with a direct call. */
static enum healing find_tail(int memory, uintptr_t start, uintptr_t entry, struct site *site)
{
	struct code code = { .n = 10 };
	unsigned char *p = code.bytes + BEHIND - 10;
	int length, reg;

	for (int size = 9; size <= 10; size++) {
		p = code.bytes + BEHIND - size;
		code.n = size;
		if (syscall4(SYS_pread64, memory, (long)p, size, start) != size)
			return NEVER_HEALED;
		reg = register_of(code.bytes + BEHIND, 0xe0, &length);
		if (reg >= 0 && length == size - 7 &&
		    find_mov(&code, code.bytes + BEHIND - length, start + 7, reg, entry, site) == FOUND) {
			site->plain = 1;
			return FOUND;
		}
	}
	return NEVER_HEALED;
}

enum healing vfix_find_site(int memory, uintptr_t ra, int function, struct site *site)
{
	uintptr_t entry = VFIX_PAGE + function * ENTRY_SIZE;
	struct code code;
	const unsigned char *end = code.bytes + BEHIND;
	enum healing found = NEVER_HEALED;
	int length, reg;

	if (!read_before(memory, ra, &code) || code.n < 5)
		return NEVER_HEALED;
	reg = register_of(end, 0xd0, &length);
	if (reg >= 0)
		found = find_mov(&code, end - length, ra - length, reg, entry, site);
	if (found == HEALED_BEFORE)
		return HEALED_BEFORE;
	if (found == FOUND) {
		const unsigned char *mov = end - (ra - site->address) - 6;

		site->plain = site->address + 1 + length == ra &&
			is_stub(memory, mov, mov - (end - code.n), ra);
		return FOUND;
	}
	if (end[-5] != 0xe8)	/* call rel32 */
		return NEVER_HEALED;
	uintptr_t target = ra + imm32(end - 4);
	if (target != entry)
		return find_tail(memory, target, entry, site);
	*site = (struct site){ .address = ra - 1, .length = 1, .bytes = end[-1] - (entry >> 24 & 0xff) };
	return ra >> 31 == 0 ? FOUND : NEVER_HEALED;
}

/* A byte of a displacement moves by as much as the target's does. */
void vfix_aim(struct site *site, unsigned char top)
{
	site->bytes += site->length == 1 ? top : (uint64_t)top << 24;
}
