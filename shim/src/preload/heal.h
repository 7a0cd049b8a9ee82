/* What the parts of healing share. */
#ifndef VFIX_HEAL_H
#define VFIX_HEAL_H

#include "preload.h"

#define LOW_BYTES 0xffffff	/* of an entry's address: what a call site keeps */

/* How a call site is changed: length bytes at address, 1 or 8 that are aligned to 8. */
struct site {
	uintptr_t address;
	unsigned length;
	uint64_t bytes;
	int plain;		/* the code behind the call follows the C convention */
};

enum healing {
	NEVER_HEALED,	/* of no form that is known, or its code cannot be written to */
	FOUND,		/* it can be healed */
	HEALED_NOW,
	HEALED_BEFORE,	/* another thread was faster, or an older value was still in a register */
	LATER,		/* another thread prepares what it takes */
};

/* site.c: finds the call site that returns to ra and called the function's entry; top is the
 * high byte of the entry's replacement below 2 GiB (neighbour.c). NEVER_HEALED, FOUND or
 * HEALED_BEFORE. memory is /proc/self/mem, open. */
VFIX_HIDDEN enum healing vfix_find_site(int memory, uintptr_t ra, int function, struct site *site);
VFIX_HIDDEN void vfix_aim(struct site *site, unsigned char top);

/* neighbour.c: the top byte of a page below 2 GiB that serves the three functions, 0 where
 * there can be none, -1 where another thread is making it. */
VFIX_HIDDEN int vfix_neighbour(int plain);

/* stubs.S: what stands at the entries of such a page, and where the vDSO's address goes. */
VFIX_HIDDEN extern const char vfix_stub_keep[], vfix_stub_keep_hole[], vfix_stub_keep_end[];
VFIX_HIDDEN extern const char vfix_stub_plain[], vfix_stub_plain_hole[], vfix_stub_plain_end[];

/* code.c: writes into code that others may be running; 0 or a negative error number. */
VFIX_HIDDEN long vfix_write_code(int memory, const struct site *site);

/* maps.c: what is mapped at an address. */
struct mapping {
	uintptr_t start, end, base;	/* base: where the file's first byte is mapped, or start */
	char readable, writable, executable, shared;
	char path[200];			/* its end where it is longer; "" for anonymous memory */
};

VFIX_HIDDEN int vfix_find_mapping(uintptr_t address, struct mapping *mapping);

/* log.c: one line on stderr. */
VFIX_HIDDEN void vfix_log_site(uintptr_t ra, int function, const char *what);

#endif
