/* References to the page, and the stand-in: what both parts of the fallback do (fallback.h). */
#include <sys/mman.h>
#include <sys/syscall.h>
#include "fallback.h"

#define AT_RARE 2	/* the byte of an entry's address that is rare in code */
#define RARE (VFIX_PAGE >> 8 * AT_RARE & 0xff)

/* Whether one of the next 8 bytes is the rare one. */
static int has_rare(const unsigned char *code)
{
	const uint64_t ones = 0x0101010101010101, highs = 0x8080808080808080;
	uint64_t word = *(const uint64_t *)code ^ ones * RARE;

	return ((word - ones) & ~word & highs) != 0;
}

const unsigned char *vfix_find(const unsigned char *from, const unsigned char *end)
{
	for (; from + sizeof(uint32_t) <= end; from++) {
		while (from + AT_RARE + sizeof(uint64_t) <= end && !has_rare(from + AT_RARE))
			from += sizeof(uint64_t);
		if (from + sizeof(uint32_t) <= end && from[AT_RARE] == RARE && is_entry(from))
			return from;
	}
	return end;
}

uintptr_t vfix_map(pid_t task, uintptr_t at, int protection)
{
	const int flags = MAP_PRIVATE | MAP_ANONYMOUS | (at ? MAP_NOREPLACE : 0);
	long got = vfix_call(task, SYS_mmap, (long)at, PAGE_BYTES, protection, flags);

	if (got < 0 && got > -(long)PAGE_BYTES)
		return 0;
	if (at && (uintptr_t)got != at) {
		vfix_call(task, SYS_munmap, got, PAGE_BYTES, 0, 0);
		return 0;
	}
	return (uintptr_t)got;
}

uintptr_t vfix_map_stand_in(pid_t task, int protection, const uintptr_t target[VFIX_FUNCTIONS])
{
	uintptr_t at = 0;

	for (size_t i = 0; i < sizeof stand_in_tops && !at; i++)
		at = vfix_map(task, stand_in_at(stand_in_tops[i]), protection);
	if (at) {
		vfix_fill(task, at, vfix_stand_in, STAND_IN_BYTES);
		vfix_fill(task, at + SLOTS, target, VFIX_FUNCTIONS * sizeof *target);
	}
	return at;
}
