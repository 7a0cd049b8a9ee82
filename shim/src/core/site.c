/*
 * Finds the instruction that called the page, from the return address:
 *
 *	mov $entry,%rax; call *%rax
 *	call f … f: mov $entry,%rax; jmp *%rax		a tail call
 *	call entry			only from addresses near the page's, or below 2 GiB
 *
 * No other form is needed: the result of the call replaces the address in rax, so only the call itself uses
 * the value that the mov loads. Another register would keep the value, and a program may compare it. One
 * instruction is replaced by one of the same length: a thread between the mov and the call, or whose signal
 * handler returns there, finds the same code.
 */
#include "core.h"

#define TAIL 32		/* bytes after the start of a function that ends in a tail call */
#define MOV 7		/* bytes of mov imm32, and of lea */
#define INDIRECT 2	/* of a call or jump by rax */
#define CALL 0xd0	/* ff /2 and ff /4 of rax */
#define JUMP 0xe0

/* The length of the instruction that loads an address into rax, and the address; 0 for others. */
static int load(const unsigned char *code, uintptr_t at, uintptr_t *value)
{
	static const unsigned char nop[] = { 0x0f, 0x1f, 0x00 };	/* after one that replaced 10 bytes */
	int length = MOV;

	if (code[0] == 0x48 && code[1] == 0xc7 && code[2] == 0xc0) {	/* mov imm32 */
		*value = (uintptr_t)(intptr_t)vfix_imm32(code + 3);
	} else if (code[0] == 0x48 && code[1] == 0x8d && code[2] == 0x05) {	/* lea (%rip) */
		*value = at + MOV + (uintptr_t)(intptr_t)vfix_imm32(code + 3);
	} else if (code[0] == 0x48 && code[1] == 0xb8) {	/* mov imm64 */
		*value = (uint32_t)vfix_imm32(code + 2) | (uintptr_t)vfix_imm32(code + 6) << 32;
		return LONGEST;
	} else {
		return 0;
	}
	for (int i = 0; i < 3 && code[length] == nop[i]; i++)
		length++;
	return length == LONGEST ? LONGEST : MOV;
}

/* Whether the instruction at code, whose address is at, loads the entry, or a trampoline, for the call or
 * jump by rax after it. */
static enum finding loads_for(struct task *t, const unsigned char *code, uintptr_t at, unsigned char modrm, uintptr_t entry, struct site *s)
{
	uintptr_t value;
	int length = load(code, at, &value);

	if (!length || code[length] != 0xff || code[length + 1] != modrm)
		return NO_SITE;
	vfix_fill(s, at, length, code);
	return value == entry ? FOUND : vfix_is_stub(t, value) ? HEALED_BEFORE : NO_SITE;
}

void vfix_fill(struct site *s, uintptr_t start, int length, const unsigned char *code)
{
	s->start = start;
	s->length = length;
	for (int i = 0; i < length; i++)
		s->old[i] = code[i];
}

/* Finds the site in the called function, if it jumped to the page. */
static enum finding find_tail(struct task *t, uintptr_t function, uintptr_t entry, struct site *s)
{
	unsigned char code[TAIL + LONGEST + INDIRECT];
	enum finding found = NO_SITE;

	if (vfix_read(t, function, code, sizeof code))
		for (size_t i = 0; i < TAIL && found == NO_SITE; i++)
			found = loads_for(t, code + i, function + i, JUMP, entry, s);
	return found;
}

enum finding vfix_find_site(struct task *t, uintptr_t ra, int function, struct site *s)
{
	unsigned char code[LONGEST + INDIRECT + LONGEST] = { 0 };	/* no instruction continues after the call */
	const unsigned char *end = code + LONGEST + INDIRECT;
	uintptr_t entry = vfix_entry_of(function);
	enum finding found = NO_SITE;

	*s = (struct site){ .ra = ra, .function = function };
	if (!vfix_read(t, ra - LONGEST - INDIRECT, code, LONGEST + INDIRECT))
		return NO_SITE;
	for (int length = MOV; length <= LONGEST && found == NO_SITE; length += LONGEST - MOV)
		found = loads_for(t, end - INDIRECT - length, ra - INDIRECT - (size_t)length, CALL, entry, s);
	if (found != NO_SITE || end[-DIRECT] != 0xe8)
		return found;
	uintptr_t target = ra + (uintptr_t)(intptr_t)vfix_imm32(end - 4);
	if (target != entry)
		return find_tail(t, target, entry, s);
	vfix_fill(s, ra - DIRECT, DIRECT, end - DIRECT);
	return FOUND;
}
