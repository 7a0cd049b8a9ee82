/*
 * Healing, for the preload library and for vfix-trace: finds the mapping at an address, the call site that
 * a call came from, and others near it; changes them while other threads run that code. Freestanding.
 */
#ifndef VFIX_CORE_H
#define VFIX_CORE_H

#include <stddef.h>
#include <stdint.h>
#include "page.h"

#pragma GCC visibility push(hidden)

/* The program with the code. Each user of this code defines its own task, and the next three functions. */
struct task;

/* 1 if all of it was read; or written, even if the task itself may not write there. */
int vfix_read(struct task *t, uintptr_t from, void *to, size_t size);
int vfix_put(struct task *t, uintptr_t to, const void *from, size_t size);
/* Whether a healed site may have that address. */
int vfix_is_stub(struct task *t, uintptr_t address);

/* maps.c: a line of /proc/PID/maps (proc(5)). */
struct mapping {
	uintptr_t start, end;
	uintptr_t offset;	/* of start in the file, in bytes */
	char readable, writable, executable, shared;
	char path[200];		/* its end if it is longer; "" for anonymous memory */
};
/* Finds the mapping with the address; fd is that file, open at its start. 0: no mapping, or not known. */
int vfix_find_mapping(long fd, uintptr_t address, struct mapping *m);

#define LONGEST 10	/* bytes of the longest instruction with the address of an entry */
#define DIRECT 5	/* and of a direct call */
#define HLT 0xf4	/* SDM: privileged, #GP, which Linux reports as SIGSEGV with SI_KERNEL */

/* The instruction with the address of an entry, and its replacement: a direct call, or a load of the
 * address into rax for the call or jump after it. */
struct site {
	uintptr_t start;
	uintptr_t ra;		/* the return address of the call */
	int length;		/* of both, in bytes: DIRECT, or 7 or LONGEST of a load */
	int function;
	int stays;		/* a hlt is there that could not be replaced */
	unsigned char old[LONGEST], new[LONGEST];
};

/* site.c: finds the site that called the function's entry with the return address ra. */
enum finding { NO_SITE, FOUND, HEALED_BEFORE };
enum finding vfix_find_site(struct task *t, uintptr_t ra, int function, struct site *s);
void vfix_fill(struct site *s, uintptr_t start, int length, const unsigned char *code);

/* change.c: encodes the site with the target; 0 if it cannot. */
int vfix_encode(struct site *s, uintptr_t target);
/* Writes the new instruction; sync makes all processors see what was written. Returns 1 if the instruction
 * was written. Code that cannot be written does not change. */
int vfix_change(struct task *t, struct site *s, void (*sync)(struct task *t));

/* trampolines.c: two pages, code and state, that the caller maps. put writes the trampolines, 1 if all of
 * it; has returns whether they are there. */
#define TRAMPOLINE_BYTES (2 * 4096)
enum trampoline { EXACT, SYSCALL };	/* both change only rax; SYSCALL: without stack for the vDSO */
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
