/*
 * Changes code that other tasks of the space may be running, without stopping them (core/change.c): a stop
 * would end their epoll_wait with EINTR. A task that reaches a hlt is stopped by its fault until the tracer
 * has finished, and then runs the code again. Kernels before 4.16 cannot make the processors see new code:
 * there, the tasks are stopped.
 */
#include <errno.h>
#include <string.h>
#include <sys/syscall.h>
#include "trace.h"

/* linux/membarrier.h */
#define PRIVATE_EXPEDITED_SYNC_CORE (1 << 5)
#define REGISTER_PRIVATE_EXPEDITED_SYNC_CORE (1 << 6)

/* The places of a hlt whose fault the tracer may not have handled yet; or of one that remains, because the
 * task through which the tracer wrote was killed. */
#define MET 512
static struct { unsigned family; const struct space *space; struct site site; } met[MET];
static unsigned next_met;

static int patch_again(struct task *t, struct site s)
{
	return patch_code(t, &s) == PATCHED;
}

/* A concurrently forked child has the hlt in its memory permanently. */
int patch_was_met(struct task *t, uintptr_t rip)
{
	uint8_t code[LONGEST];

	for (unsigned i = 0; i < MET; i++) {
		struct site *s = &met[i].site;

		if (s->start != rip || met[i].family != t->space->family)
			continue;
		if (!vfix_read(t, rip, code, (size_t)s->length))
			return met[i].space == t->space;
		if (code[0] == HLT)
			return patch_again(t, *s);
		return !memcmp(code, s->new, (size_t)s->length) || !memcmp(code, s->old, (size_t)s->length);
	}
	return 0;
}

static int sync_cores(struct task *t)
{
	uintptr_t instruction = vdso_syscall(t->space);

	if (!instruction || t->space->no_sync)
		return 0;
	long result = inject(t, instruction, (const long[7]){ SYS_membarrier, PRIVATE_EXPEDITED_SYNC_CORE });
	if (result == -EPERM) {
		inject(t, instruction, (const long[7]){ SYS_membarrier, REGISTER_PRIVATE_EXPEDITED_SYNC_CORE });
		result = inject(t, instruction, (const long[7]){ SYS_membarrier, PRIVATE_EXPEDITED_SYNC_CORE });
	}
	t->space->no_sync = result != 0 && !is_gone(t);
	return result == 0;
}

static void sync_running(struct task *t)
{
	sync_cores(t);
}

/* A stopped task sees all that was written. */
static void sync_stopped(struct task *t)
{
	(void)t;
}

enum patched patch_code(struct task *t, struct site *s)
{
	/* A filter that is the program's own may kill for membarrier. */
	int run_on = t->space->users > 1 && !proc_is_sandboxed(t->tid) && sync_cores(t);
	unsigned own = next_met;

	if (!run_on && !gather(t))
		return PATCH_LATER;
	if (t->space->users > 1) {
		met[own].family = t->space->family;
		met[own].space = t->space;
		met[own].site = *s;
		next_met = (own + 1) % MET;
	}
	int changed = vfix_change(t, s, run_on ? sync_running : sync_stopped);
	if (t->space->users > 1)
		met[own].site.stays = s->stays;
	return changed ? PATCHED : PATCH_REFUSED;
}

void patch_rest(struct task *t)
{
	int stopped = 0;
	uint8_t byte;

	for (unsigned i = 0; i < MET; i++) {
		if (!met[i].site.stays || met[i].space != t->space || met[i].family != t->space->family)
			continue;
		met[i].site.stays = 0;
		if (vfix_read(t, met[i].site.start, &byte, sizeof byte) && byte == HLT &&
		    (stopped || (stopped = finish_syscall(t))))
			patch_again(t, met[i].site);
	}
}
