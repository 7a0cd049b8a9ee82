/*
 * Finding what made a call into the page, from the address that it returns to:
 *
 *	mov $entry,%reg … call *%reg	the mov need not be next to the call: compilers hoist
 *					it out of loops
 *	call f … f: mov $entry,%reg; jmp *%reg		a tail call
 *	call entry			only from addresses near the page's, or below 2 GiB
 *
 * The register must hold the entry. One instruction is replaced, by one as long: a thread that
 * is between the mov and the call, or whose signal handler returns there, meets nothing new.
 */
#include "core.h"

#define WINDOW 512	/* bytes before the call in which the mov is looked for */
#define TAIL 32		/* bytes after the start of a function that ends in a tail call */
#define SHORTEST 7	/* bytes of the shortest instruction that names an entry in a register */
#define CALL 5		/* and of a direct call */
#define MODRM_CALL 0xd0	/* ff /2 and ff /4 with a register operand */
#define MODRM_JUMP 0xe0
#define PAGE 4096

/* The register of an indirect call or jump of 2 or 3 bytes; -1 for other instructions. */
static int through(const unsigned char *code, int length, unsigned char modrm)
{
	int high = length == 3;

	if ((high && code[0] != 0x41) || code[high] != 0xff || (code[high + 1] & 0xf8) != modrm)	/* REX.B */
		return -1;
	return (code[high + 1] & 7) + 8 * high;
}

static void fill(struct site *s, uintptr_t start, int length, int reg, const unsigned char *code)
{
	s->start = start;
	s->length = length;
	s->reg = reg;
	for (int i = 0; i < length; i++)
		s->old[i] = code[i];
}

/* Whether one of the n bytes at code, whose address is at, on loads the entry, or a stub, into
 * the register. */
static enum finding loads(struct task *t, const unsigned char *code, size_t n, uintptr_t at, int reg, uintptr_t entry, struct site *s)
{
	unsigned char low = reg & 7, wide = reg < 8 ? 0x48 : 0x49;	/* REX.W, REX.B */
	int length = SHORTEST;
	uintptr_t value;

	if (n < SHORTEST)
		return NO_SITE;
	if (code[0] == wide && code[1] == 0xc7 && code[2] == (0xc0 | low)) {	/* mov imm32 */
		value = (uintptr_t)(intptr_t)vfix_imm32(code + 3);
	} else if (n >= LONGEST && code[0] == wide && code[1] == (0xb8 | low)) {	/* mov imm64 */
		value = (uint32_t)vfix_imm32(code + 2) | (uintptr_t)vfix_imm32(code + 6) << 32;
		length = LONGEST;
	} else if (code[0] == (reg < 8 ? 0x48 : 0x4c) && code[1] == 0x8d && code[2] == (0x05 | low << 3)) {	/* lea (%rip) */
		value = at + SHORTEST + (uintptr_t)(intptr_t)vfix_imm32(code + 3);
	} else {
		return NO_SITE;
	}
	if (n >= LONGEST && code[7] == 0x0f && code[8] == 0x1f && code[9] == 0x00)	/* the nop of a healed one */
		length = LONGEST;
	fill(s, at, length, reg, code);
	return value == entry ? FOUND : vfix_is_stub(t, value) ? HEALED_BEFORE : NO_SITE;
}

/* The function that was called, and that jumped to the page. */
static enum finding find_tail(struct task *t, uintptr_t function, const uintptr_t registers[16], uintptr_t entry, struct site *s)
{
	unsigned char code[TAIL];

	if (!vfix_read(t, function, code, sizeof code))
		return NO_SITE;
	for (size_t i = 0; i + LONGEST + 3 <= sizeof code; i++)
		for (int reg = 0; reg < 16; reg++) {
			enum finding found = registers[reg] != entry ? NO_SITE :
				loads(t, code + i, LONGEST, function + i, reg, entry, s);

			if (found != NO_SITE && through(code + i + s->length, reg < 8 ? 2 : 3, MODRM_JUMP) == reg) {
				s->plain = i == 0;	/* nothing but the two instructions */
				return found;
			}
		}
	return NO_SITE;
}

/* The n bytes before the call that ends at ra are read to the end of code. */
static enum finding find_call(struct task *t, const unsigned char *end, size_t n, const uintptr_t registers[16], uintptr_t entry, struct site *s)
{
	for (int length = 3; length >= 2; length--) {
		const unsigned char *call = end - length;
		int reg = through(call, length, MODRM_CALL);

		if (reg < 0 || registers[reg] != entry)
			continue;
		for (const unsigned char *p = call - SHORTEST; p >= end - n; p--) {
			enum finding found = loads(t, p, (size_t)(call - p), s->ra - (uintptr_t)(end - p), reg, entry, s);

			if (found == NO_SITE)
				continue;
			s->plain = found == FOUND && p + s->length == call && vfix_is_whole(t, s);
			return found;
		}
	}
	return NO_SITE;
}

/* The bytes before the address, those of its page at least; how many, up to WINDOW. */
static size_t read_before(struct task *t, uintptr_t address, unsigned char *end)
{
	size_t n = WINDOW;

	if (vfix_read(t, address - n, end - n, n))
		return n;
	n = (address - 1) % PAGE + 1;
	return n < WINDOW && vfix_read(t, address - n, end - n, n) ? n : 0;
}

enum finding vfix_find_site(struct task *t, const uintptr_t registers[16], uintptr_t ra, int function, struct site *s)
{
	unsigned char code[WINDOW];
	const unsigned char *end = code + WINDOW;
	uintptr_t entry = vfix_entry_of(function);
	size_t n = read_before(t, ra, code + WINDOW);

	*s = (struct site){ .ra = ra, .function = function };
	if (n < CALL)
		return NO_SITE;
	if (end[-CALL] == 0xe8) {
		uintptr_t target = ra + (uintptr_t)(intptr_t)vfix_imm32(end - 4);

		if (target == entry) {
			fill(s, ra - CALL, CALL, DIRECT_CALL, end - CALL);
			return FOUND;
		}
		enum finding found = find_tail(t, target, registers, entry, s);
		if (found != NO_SITE)
			return found;
	}
	return find_call(t, end, n, registers, entry, s);
}
