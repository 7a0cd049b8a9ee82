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
#define MOV 7			/* and of the first */
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

/* The sites of one piece of code that was read. */
struct found {
	struct patch patches[64];
	int function[64];
	int n;
};

/* Only what was changed is told of. */
static void change(struct task *t, struct found *f)
{
	if (f->n == 0 || !map_trampolines(t))
		return;
	for (int i = 0; i < f->n; i++) {
		uint32_t operand = (uint32_t)trampoline(t->space, f->function[i]);

		memcpy(f->patches[i].code + 3, &operand, sizeof operand);
	}
	if (patch_code(t, f->patches, f->n) == PATCHED)
		for (int i = 0; i < f->n; i++)
			log_site(t->tid, f->patches[i].start + SITE, f->function[i], "healed before it was called");
	f->n = 0;
}

static void add(struct task *t, struct found *f, uintptr_t at, const uint8_t *code, int function)
{
	struct patch *p = &f->patches[f->n];

	p->start = at;
	p->length = MOV;
	memcpy(p->code, code, MOV);
	f->function[f->n++] = function;
	if (f->n == sizeof f->patches / sizeof *f->patches)
		change(t, f);
}

void sweep(struct task *t, uintptr_t around)
{
	static uint8_t code[CHUNK];
	static struct found found;
	struct mapping m;

	if (!proc_mapping(t->tid, around - 1, &m) || !m.is_private || m.end - m.start > MOST ||
	    m.start == t->space->swept)
		return;
	t->space->swept = m.start;
	const uintptr_t end = m.end;
	found.n = 0;
	for (uintptr_t at = m.start; at + SITE <= end; at += CHUNK - SITE + 1) {
		size_t n = end - at < CHUNK ? end - at : CHUNK;

		if (!memory_read(t->tid, at, code, n))
			break;
		/* The third byte of the operand is the rarest. */
		const uint8_t *mark = code + RARE, *last = code + n - SITE + RARE;
		for (; mark <= last && (mark = memchr(mark, RARE_BYTE, last - mark + 1)); mark++) {
			const uint8_t *site = mark - RARE;
			int function = site_at(site);
			if (function >= 0)
				add(t, &found, at + (site - code), site, function);
		}
	}
	change(t, &found);
	if (is_gone(t))
		t->space->swept = 0;
}
