/*
 * The sites near one that was called: they cost no fault of their own then. Only the form that
 * nothing else looks like, and that nearly all sites of old programs have:
 *
 *	48 c7 c0+r  imm32	mov	$entry, %reg
 *	ff d0+r			call	*%reg
 */
#include "heal.h"

#define AROUND 8192	/* bytes before and behind that are searched */
#define CHUNK 4096	/* bytes that are read at a time */
#define BYTES 9		/* of the two instructions */
#define MOV 7		/* and of the first */
#define RARE 5		/* where in them the rarest byte is */

static int32_t imm32(const unsigned char *p)
{
	return p[0] | p[1] << 8 | p[2] << 16 | (uint32_t)p[3] << 24;
}

int vfix_is_stub(long memory, uintptr_t mov)
{
	unsigned char code[4 + BYTES + 5];

	/* sub $8, %rsp … add $8, %rsp; ret */
	return syscall4(SYS_pread64, memory, (long)code, sizeof code, mov - 4) == sizeof code && imm32(code) == 0x08ec8348 &&
		code[4 + MOV] == 0xff && imm32(code + 4 + BYTES) == 0x08c48348 && code[4 + BYTES + 4] == 0xc3;
}

/* Which function's entry is called there, or -1. */
static int function_at(const unsigned char *code)
{
	uintptr_t offset;

	if (code[0] != 0x48 || code[1] != 0xc7 || (code[2] & 0xf8) != 0xc0 || code[7] != 0xff || code[8] != (0xd0 | (code[2] & 7)))
		return -1;
	offset = (uintptr_t)(intptr_t)imm32(code + 3) - VFIX_PAGE;
	return offset % ENTRY_SIZE || offset / ENTRY_SIZE >= VFIX_FUNCTIONS ? -1 : (int)(offset / ENTRY_SIZE);
}

void vfix_sweep(long memory, const struct mapping *map, uintptr_t around)
{
	static unsigned char chunk[CHUNK];	/* only who holds the lock is here */
	static uintptr_t swept, swept_end;	/* what was searched last, and need not be again */
	uintptr_t end = map->end - around > AROUND ? around + AROUND : map->end;
	uintptr_t at = around - map->start > AROUND ? around - AROUND : map->start;

	if (around >= swept && around < swept_end)
		return;
	swept = at;
	swept_end = end;
	for (; at + BYTES <= end; at += CHUNK - BYTES + 1) {
		long n = end - at < CHUNK ? end - at : CHUNK;

		if (syscall4(SYS_pread64, memory, (long)chunk, n, at) != n)
			return;
		for (long i = 0; i + BYTES <= n; i++) {
			int function = chunk[i + RARE] == (VFIX_PAGE >> 16 & 0xff) ? function_at(chunk + i) : -1;

			if (function < 0 || at + i == around)
				continue;
			if (vfix_site_count == SITES) {
				swept_end = at + i;
				return;
			}
			struct site site = { .start = at + i, .length = MOV, .reg = chunk[i + 2] & 7, .function = function, .ra = at + i + BYTES };
			site.plain = vfix_is_stub(memory, site.start);
			uintptr_t stub = vfix_near(&site, map);
			if (stub)
				vfix_add_site(&site, stub);
		}
	}
}
