/*
 * Finding what made a call into the page, from the address that it returns to:
 *
 *	mov $entry,%reg … call *%reg	the operand of the mov, which need not stand next to
 *					the call: compilers hoist it out of loops
 *	call f … f: mov $entry,%reg; jmp *%reg		a tail call
 *	call entry			only from low addresses
 *
 * The register must hold the entry at the call. An operand is replaced by another, so each
 * instruction stays where it was and as long as it was: a task that stands between the mov
 * and the call, or whose signal handler returns there, meets nothing new.
 */
#include <string.h>
#include "trace.h"

#define WINDOW 512	/* bytes before the call in which the mov is looked for */
#define STUB 32		/* bytes after the start of a function that ends in a tail call */
#define SHORTEST 7	/* bytes of the shortest mov */
#define MODRM_CALL 0xd0	/* ff /2 and ff /4 with a register operand */
#define MODRM_JUMP 0xe0

unsigned long *register_of(struct user_regs_struct *r, int number)
{
	unsigned long *const registers[] = {
		&r->rax, &r->rcx, &r->rdx, &r->rbx, &r->rsp, &r->rbp, &r->rsi, &r->rdi,
		&r->r8, &r->r9, &r->r10, &r->r11, &r->r12, &r->r13, &r->r14, &r->r15,
	};

	return registers[number];
}

/* Which register the indirect call or jump at code goes through, and its length; else -1. */
static int indirect(const uint8_t *code, uint8_t modrm, int *length)
{
	int high = code[0] == 0x41; /* REX.B */

	*length = 2 + high;
	return code[high] == 0xff && (code[high + 1] & 0xf8) == modrm ?
		(code[high + 1] & 7) + 8 * high : -1;
}

/* Is there a mov of the value into the register at code? Fills s, at being code's address. */
static int is_mov(const uint8_t *code, uintptr_t at, int reg, uint64_t value, struct site *s)
{
	uint32_t low = (uint32_t)value;

	s->reg = reg;
	s->next = 0;
	if (code[0] != (reg < 8 ? 0x48 : 0x49))	/* REX.W, REX.B */
		return 0;
	if (code[1] == 0xc7 && code[2] == (0xc0 | (reg & 7)) && !memcmp(code + 3, &low, 4)) {
		s->start = at;
		s->length = 7;
		s->shift = 3;
		s->size = 4;
		return 1;
	}
	if (code[1] == (0xb8 | (reg & 7)) && !memcmp(code + 2, &value, 8)) {
		s->start = at;
		s->length = 10;
		s->shift = 2;
		s->size = 8;
		return 1;
	}
	return 0;
}

/* code holds the n bytes before back, which end with a call through a register. */
static int find_mov(const uint8_t *code, size_t n, uintptr_t back, uint64_t entry,
		    const struct user_regs_struct *regs, struct site *s)
{
	for (int length, form = 3; form >= 2; form--) {
		int reg = (size_t)form <= n ? indirect(code + n - form, MODRM_CALL, &length) : -1;

		if (reg < 0 || length != form || *register_of((void *)regs, reg) != entry)
			continue;
		for (size_t i = n - form; i-- > 0; )
			if (i + SHORTEST <= n - form &&
			    is_mov(code + i, back - n + i, reg, entry, s))
				return 1;
	}
	return 0;
}

/* The function that was called from the call before back, and that jumped to the page. */
static int find_tail(pid_t tid, uintptr_t function, uint64_t entry,
		     const struct user_regs_struct *regs, struct site *s)
{
	uint8_t code[STUB];
	int length;

	if (!memory_read(tid, function, code, sizeof code))
		return 0;
	for (size_t i = 0; i + LONGEST + 3 <= sizeof code; i++)
		for (int reg = 0; reg < 16; reg++)
			if (*register_of((void *)regs, reg) == entry &&
			    is_mov(code + i, function + i, reg, entry, s) &&
			    indirect(code + i + s->length, MODRM_JUMP, &length) == reg)
				return 1;
	return 0;
}

int find_site(pid_t tid, const struct user_regs_struct *regs, uintptr_t back, struct site *s)
{
	uint8_t code[WINDOW + LONGEST] = { 0 };
	size_t n = WINDOW;
	int32_t relative;

	memset(s, 0, sizeof *s);
	if (!memory_read(tid, back - n, code, n)) {
		n = back % 4096; /* nothing is mapped before this page */
		if (n < 5 || n > WINDOW || !memory_read(tid, back - n, code, n))
			return 0;
	}
	if (code[n - 5] == 0xe8) {
		memcpy(&relative, code + n - 4, 4);
		if (back + relative == regs->rip) {
			s->start = back - 5;
			s->length = 5;
			s->shift = 1;
			s->size = 4;
			s->next = back;
			s->reg = -1;
			return 1;
		}
		if (find_tail(tid, back + relative, regs->rip, regs, s))
			return 1;
	}
	return find_mov(code, n, back, regs->rip, regs, s);
}
