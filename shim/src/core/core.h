/*
 * Healing, for the preload library and for vfix-trace: what is mapped at an address, the call
 * site that a call came from, those around it, and changing them while other threads run that
 * code. Freestanding.
 */
#ifndef VFIX_CORE_H
#define VFIX_CORE_H

#include <stddef.h>
#include <stdint.h>
#include "page.h"

#pragma GCC visibility push(hidden)

/* Whose code it is. Each program has its own idea of a task, and defines the next three. */
struct task;

/* 1 if all of it was read; or written, also where the task itself may not write. */
int vfix_read(struct task *t, uintptr_t from, void *to, size_t size);
int vfix_put(struct task *t, uintptr_t to, const void *from, size_t size);
/* Whether a healed site may name that address. */
int vfix_is_stub(struct task *t, uintptr_t address);

/* maps.c: a line of /proc/PID/maps (proc(5)). */
struct mapping {
	uintptr_t start, end;
	uintptr_t offset;	/* of start in the file, in bytes */
	char readable, writable, executable, shared;
	char path[200];		/* its end if it is longer; "" for anonymous memory */
};
/* Finds what the address is in; fd is that file, open at its start. 0: nothing, or not known. */
int vfix_find_mapping(long fd, uintptr_t address, struct mapping *m);

#define LONGEST 10	/* bytes of the longest instruction that names an entry */
#define DIRECT_CALL (-1)
#define HLT 0xf4	/* SDM: privileged, #GP, which Linux reports as SIGSEGV with SI_KERNEL */

/* The instruction that names an entry of the page, and the one that replaces it. */
struct site {
	uintptr_t start;
	uintptr_t ra;		/* where the call returns to */
	int length;		/* of both, in bytes */
	int reg;		/* that the entry is loaded into, or DIRECT_CALL */
	int function;
	int plain;		/* the code around the call follows the C convention */
	enum { UNCHANGED, CHANGED, HALF, BACK, STUCK } state;	/* the last three begin with a hlt */
	unsigned char old[LONGEST], new[LONGEST];
};

/* site.c: finds the site that called the function's entry and that the call returns to ra from.
 * registers: rax, rcx … r15, as the entry was reached. */
enum finding { NO_SITE, FOUND, HEALED_BEFORE };
enum finding vfix_find_site(struct task *t, const uintptr_t registers[16], uintptr_t ra, int function, struct site *s);

/* sweep.c: whether the site is in a function that is nothing but the call. */
int vfix_is_whole(struct task *t, const struct site *s);
/* Calls add for each site between the addresses that looks like nothing else, until
 * that returns 0. One caller at a time. */
void vfix_sweep(struct task *t, uintptr_t at, uintptr_t end, int (*add)(struct task *t, const struct site *s));

/* change.c: makes the site name the target; 0 if it cannot. */
int vfix_encode(struct site *s, uintptr_t target);
/* Writes the new instructions; sync makes every processor see what was written. Returns how many
 * sites are CHANGED. Code that cannot be written stays as it was. */
int vfix_change(struct task *t, struct site *s, int n, void (*sync)(struct task *t));

/* trampolines.c: two pages, code and state, that the caller maps. put writes what the trampolines
 * are, 1 if all of it; has says whether they are there. */
#define TRAMPOLINE_BYTES (2 * 4096)
enum trampoline { PLAIN, EXACT, SYSCALL };	/* SYSCALL: with no stack for the vDSO */
int vfix_put_trampolines(struct task *t, uintptr_t code, const struct vfix_state *state);
int vfix_has_trampolines(struct task *t, uintptr_t code);
int vfix_is_trampoline(uintptr_t code, uintptr_t address);
uintptr_t vfix_trampoline(uintptr_t code, int function, enum trampoline kind);

static inline int32_t vfix_imm32(const unsigned char *p)
{
	return (int32_t)(p[0] | p[1] << 8 | p[2] << 16 | (uint32_t)p[3] << 24);
}

#pragma GCC visibility pop
#endif
