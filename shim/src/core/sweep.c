/*
 * The sites around one that was called: they cost no fault of their own then. Only the form that
 * nothing else looks like, and that nearly all sites of old programs have:
 *
 *	48 c7 c0+r  imm32	mov	$entry, %reg
 *	ff d0+r			call	*%reg
 */
#include "core.h"

#define CHUNK 16384	/* bytes that are read at a time */
#define BYTES 9		/* of the two instructions */
#define MOV 7		/* and of the first */
#define RARE 5		/* where in them the rarest byte is */

int vfix_is_whole(struct task *t, const struct site *s)
{
	unsigned char code[4 + BYTES + 5];

	/* sub $8, %rsp … add $8, %rsp; ret */
	return vfix_read(t, s->start - 4, code, sizeof code) && vfix_imm32(code) == 0x08ec8348 &&
		code[4 + MOV] == 0xff && vfix_imm32(code + 4 + BYTES) == 0x08c48348 && code[4 + BYTES + 4] == 0xc3;
}

/* Which function's entry is called there, or -1. */
static int site_at(const unsigned char *code)
{
	if (code[0] != 0x48 || code[1] != 0xc7 || (code[2] & 0xf8) != 0xc0 || code[7] != 0xff || code[8] != (0xd0 | (code[2] & 7)))
		return -1;
	return vfix_function_at((uintptr_t)(intptr_t)vfix_imm32(code + 3));
}

void vfix_sweep(struct task *t, uintptr_t at, uintptr_t end, int (*add)(struct task *t, const struct site *s))
{
	static unsigned char chunk[CHUNK];

	for (; at + BYTES <= end; at += CHUNK - BYTES + 1) {
		size_t n = end - at < CHUNK ? end - at : CHUNK;

		if (!vfix_read(t, at, chunk, n))
			return;
		for (size_t i = 0; i + BYTES <= n; i++) {
			const unsigned char *code = chunk + i;
			int function = code[RARE] == (VFIX_PAGE >> 16 & 0xff) ? site_at(code) : -1;

			if (function < 0)
				continue;
			struct site s = { .start = at + i, .ra = at + i + BYTES, .length = MOV, .reg = code[2] & 7, .function = function };
			for (int k = 0; k < MOV; k++)
				s.old[k] = code[k];
			s.plain = vfix_is_whole(t, &s);
			if (!add(t, &s))
				return;
		}
	}
}
