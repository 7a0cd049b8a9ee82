/*
 * Heals other sites of a piece of code when one of them is called, which saves their faults. It handles
 * only the unambiguous form, which nearly all sites of old programs have:
 *
 *	48 c7 c0  imm32		mov	$entry, %rax
 *	ff d0			call	*%rax
 */
#include "trace.h"

#define MOST (64ul << 20)	/* bytes of code above which the search costs more than it saves */
#define CHUNK 16384	/* bytes that are read at once */
#define BYTES 9		/* of the two instructions */
#define MOV 7		/* and of the first */
#define RARE 5		/* index of the rarest byte in them */

/* The function that is called there, or -1. */
static int site_at(const unsigned char *code)
{
	if (code[RARE] != (VFIX_PAGE >> 16 & 0xff) || code[0] != 0x48 || code[1] != 0xc7 || code[2] != 0xc0 ||
	    code[7] != 0xff || code[8] != 0xd0)
		return -1;
	return vfix_function_at((uintptr_t)(intptr_t)vfix_imm32(code + 3));
}

/* Reports only successful changes. */
static void change(struct task *t, const unsigned char *code, uintptr_t at, int function)
{
	struct site s = { .ra = at + BYTES, .function = function };

	vfix_fill(&s, at, MOV, code);
	if (vfix_encode(&s, trampoline(t->space, function)) && patch_code(t, &s) == PATCHED)
		log_site(t->tid, s.ra, function, "healed before it was called");
}

static void change_all(struct task *t, uintptr_t at, uintptr_t end)
{
	static unsigned char chunk[CHUNK];

	for (; at + BYTES <= end; at += CHUNK - BYTES + 1) {
		size_t n = end - at < CHUNK ? end - at : CHUNK;

		if (!vfix_read(t, at, chunk, n))
			return;
		for (size_t i = 0; i + BYTES <= n; i++) {
			int function = site_at(chunk + i);

			if (function >= 0 && !map_trampolines(t))
				return;
			if (function >= 0)
				change(t, chunk + i, at + i, function);
		}
	}
}

void sweep(struct task *t, uintptr_t around)
{
	struct mapping m;

	if (!proc_mapping(t->tid, around - 1, &m) || m.shared || m.end - m.start > MOST || m.start == t->space->swept)
		return;
	t->space->swept = m.start;
	change_all(t, m.start, m.end);
	if (is_gone(t))
		t->space->swept = 0;
}
