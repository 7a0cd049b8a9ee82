/* What the parts of healing share. */
#ifndef VFIX_HEAL_H
#define VFIX_HEAL_H

#include "preload.h"

#define LONGEST 10	/* bytes of the longest instruction that names an entry */
#define DIRECT_CALL (-1)

enum healing {
	NEVER_HEALED,	/* of no form that is known, or its code cannot be written to */
	FOUND,		/* it can be healed */
	HEALED_NOW,
	HEALED_BEFORE,	/* another thread was faster, or an older value was still in a register */
	LATER,		/* another thread is healing */
};

/* The instruction that names an entry of the page, and what becomes of it: as many bytes that
 * name a stub instead (near.c). */
struct site {
	uintptr_t start;
	int length;
	int reg;		/* that the entry is loaded into, or DIRECT_CALL */
	int function;
	int plain;		/* the code behind the call follows the C convention */
	uintptr_t ra;		/* where the call returns to, for the log */
	unsigned char code[LONGEST];
};

/* job.c: heals the site that returns to ra, or finishes what a fork left half done. */
struct job {
	uintptr_t ra;
	int function;
	int finishes;
};
VFIX_HIDDEN void vfix_do_job(void *job);

/* lock.c: vfix_lock returns 1 if it was free; all signals are blocked until it is unlocked.
 * vfix_is_locked may take another process for the holder. vfix_is_alone: no other thread or process of
 * this memory can fork. */
VFIX_HIDDEN void vfix_lock_start(void);
VFIX_HIDDEN int vfix_lock(void);
VFIX_HIDDEN void vfix_unlock(void);
VFIX_HIDDEN int vfix_is_locked(void);
VFIX_HIDDEN int vfix_is_alone(void);

/* maps.c: what is mapped at an address. */
struct mapping {
	uintptr_t start, end, base;	/* base: where the file's first byte is mapped, or start */
	char readable, writable, executable, shared;
	char path[200];			/* its end where it is longer; "" for anonymous memory */
};

VFIX_HIDDEN int vfix_find_mapping(uintptr_t address, struct mapping *mapping);

/* site.c: finds the call site that returns to ra and called the function's entry. NEVER_HEALED,
 * FOUND or HEALED_BEFORE. memory is /proc/self/mem, open. */
VFIX_HIDDEN enum healing vfix_find_site(long memory, uintptr_t ra, int function, struct site *site);

/* sweep.c: adds the sites near one that look like nothing else. */
VFIX_HIDDEN void vfix_sweep(long memory, const struct mapping *map, uintptr_t around);
/* Whether the mov at that address is in a function that is nothing but the call. */
VFIX_HIDDEN int vfix_is_stub(long memory, uintptr_t mov);

/* near.c: the stub that stands for the site's entry, within reach of it; 0 where there can be
 * none. Whether an address is such a stub's. */
VFIX_HIDDEN uintptr_t vfix_near(const struct site *site, const struct mapping *map);
VFIX_HIDDEN int vfix_is_near(uintptr_t address);

/* stubs.S: the stubs, and where in them the vDSO's address goes. */
VFIX_HIDDEN extern const char vfix_stub_keep[], vfix_stub_keep_hole[], vfix_stub_keep_end[];
VFIX_HIDDEN extern const char vfix_stub_plain[], vfix_stub_plain_hole[], vfix_stub_plain_end[];

/* code.c: the sites that are being changed, or were the last to be; only who holds the lock
 * changes the table. vfix_write_sites changes the code: 1 if that was done. */
#define SITES 64
VFIX_HIDDEN extern struct site vfix_sites[SITES];
VFIX_HIDDEN extern int vfix_site_count;
#define HLT 0xf4	/* SDM: privileged, #GP, which Linux tells as SIGSEGV with SI_KERNEL */
#define MOV32 7		/* bytes of lea and of the mov that it replaces */
VFIX_HIDDEN int vfix_write_sites(long memory, const struct mapping *map);
/* The same in a child that was forked meanwhile, where nobody else goes on with it. */
VFIX_HIDDEN void vfix_finish_sites(long memory);
/* encodes the instruction that names the stub, and adds the site to the table. */
VFIX_HIDDEN void vfix_add_site(struct site *site, uintptr_t stub);
/* meet.c: 1 and as if the instruction had run, if it is being changed; -1 if it was and is to be tried
 * again; 0 if the fault is none of a change. */
VFIX_HIDDEN int vfix_stand_in(greg_t *regs);

/* apart.S: runs f in a thread of its own, which has its own table of open files and may not be
 * forked with them; returns when that has ended. A negative error number, or a tid. */
VFIX_HIDDEN long vfix_apart(void (*f)(void *), void *argument);

/* The same in this thread, on the stack of that one. */
VFIX_HIDDEN void vfix_beside(void (*f)(void *), void *argument);

/* log.c: one line on stderr; map is where the site is, or NULL. */
VFIX_HIDDEN void vfix_log_site(const struct mapping *map, uintptr_t ra, int function, const char *what);

#endif
