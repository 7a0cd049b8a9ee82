/* Shared by the parts of healing. */
#ifndef VFIX_HEAL_H
#define VFIX_HEAL_H

#include "preload.h"
#include "../core/core.h"

#pragma GCC visibility push(hidden)

/* This process: /proc/self/mem, open, and the mapping to write to. */
struct task {
	long memory;
	const struct mapping *map;
};

/* job.c: heals the site that returns to ra, or completes one that a fork interrupted. */
struct job {
	uintptr_t ra;
	int function;
	int finishes;
};
void vfix_do_job(void *job);

/* lock.c: vfix_lock returns 1 if it was free; all signals are blocked until it is unlocked. vfix_is_locked
 * may mistake another process for the holder. vfix_is_alone: no other thread or process with this memory
 * can fork. vfix_threads: the threads of this process; a very large number if not known. */
unsigned long vfix_threads(void);
void vfix_lock_start(void);
int vfix_lock(void);
void vfix_unlock(void);
int vfix_is_locked(void);
int vfix_is_alone(void);

/* near.c: the trampoline that replaces the site's entry, within its reach; 0 if impossible. Whether an
 * address is that of such a trampoline. */
uintptr_t vfix_near(struct task *t, const struct site *site);
int vfix_is_near(uintptr_t address);

/* code.c: the site that is being changed, or the last one; only the holder of the lock writes to it.
 * vfix_write_site changes the code; returns 1 if it could. vfix_mapping_of finds the mapping at an address; 0: no
 * mapping, or not known. */
int vfix_mapping_of(uintptr_t address, struct mapping *map);
extern struct site vfix_site;
void vfix_set_site(const struct site *site);
int vfix_write_site(struct task *t);
/* The same in a concurrently forked child, in which no other thread completes it. */
void vfix_finish_site(struct task *t);

/* changing.c: 1, with registers as after the instruction, if it is being changed; -1 if it was and must be run
 * again; 0 if the fault does not come from a change. */
int vfix_stand_in(greg_t *regs);

/* thread.S: runs f in a thread with its own table of open files, which a fork does not copy; returns when it
 * has ended. Returns a negative error number, or a tid. */
long vfix_in_thread(void (*f)(void *), void *argument);
/* The same in this thread, on the stack of the other. */
void vfix_beside(void (*f)(void *), void *argument);

/* log.c: one line on stderr; map is the mapping of the site, or NULL. */
void vfix_log_site(const struct mapping *map, uintptr_t ra, int function, const char *what);

#pragma GCC visibility pop
#endif
