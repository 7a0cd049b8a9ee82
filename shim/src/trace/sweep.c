/*
 * Healing the sites of a piece of code that have not been called yet, when one has been. Only
 * the form that nothing else looks like, and that nearly all sites of old programs have:
 *
 *	48 c7 c0+r  imm32	mov	$entry, %reg
 *	ff d0+r			call	*%reg
 */
#include <string.h>
#include <sys/ptrace.h>
#include "trace.h"

#define SITE 9			/* bytes of the two instructions */
#define RARE 5			/* where in them the byte is that is searched for */
#define RARE_BYTE (VFIX_PAGE >> 16 & 0xff)
#define CHUNK 65536		/* bytes that are read at a time */
#define MOST (64ul << 20)	/* bytes of code beyond which the search costs more than it saves */

/* Which function's entry the site at code calls, or -1 if it is none. */
static int site_at(const uint8_t *code)
{
	int32_t operand;

	if (code[0] != 0x48 || code[1] != 0xc7 || (code[2] & 0xf8) != 0xc0 ||
	    code[7] != 0xff || code[8] != (0xd0 | (code[2] & 7)))
		return -1;
	memcpy(&operand, code + 3, sizeof operand);
	for (int function = 0; function < VFIX_FUNCTIONS; function++)
		/* 32 bits say it all; with 64 this would be a reference to the page itself */
		if ((uint32_t)operand == (uint32_t)(VFIX_PAGE + function * VFIX_SLOT))
			return function;
	return -1;
}

/* A word of the task's memory begins with the mov; the operand is 3 bytes into it. */
static void change(const struct task *t, uintptr_t at, const uint8_t *code, int function)
{
	uint32_t operand = (uint32_t)trampoline(t->space, function);
	uint8_t word[8];

	memcpy(word, code, sizeof word);
	memcpy(word + 3, &operand, sizeof operand);
	if (memory_poke(t->tid, at, word, sizeof word))
		log_site(t->tid, at + SITE, function, "healed before it was called");
}

void sweep(struct task *t, uintptr_t around)
{
	static uint8_t code[CHUNK];
	struct mapping m;

	if (!proc_mapping(t->tid, around - 1, &m) || !m.is_private || m.end - m.start > MOST ||
	    m.start == t->space->swept)
		return;
	t->space->swept = m.start;
	const uintptr_t end = m.end;
	for (uintptr_t at = m.start; at + SITE <= end; at += CHUNK - SITE + 1) {
		size_t n = end - at < CHUNK ? end - at : CHUNK;

		if (!memory_read(t->tid, at, code, n))
			return;
		/* The third byte of the operand is the rarest. */
		const uint8_t *mark = code + RARE, *last = code + n - SITE + RARE;
		for (; mark <= last && (mark = memchr(mark, RARE_BYTE, last - mark + 1)); mark++) {
			const uint8_t *site = mark - RARE;
			int function = site_at(site);
			if (function >= 0)
				change(t, at + (site - code), site, function);
		}
	}
}
