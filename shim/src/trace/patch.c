/*
 * Changing code that other tasks of the space may be running, and do not stop for: a stop would
 * end their epoll_wait with EINTR.
 *
 *	1. hlt, one byte, over the first byte of the instruction: who comes by faults
 *	2. every processor that runs the space is told that its code has changed (membarrier(2))
 *	3. the rest of the instruction; 2. again; then its first byte
 *
 * So no processor ever sees half of the change. Who met the hlt is stopped by its fault until
 * the tracer is through here, and then tries again. Kernels before 4.16 cannot tell the
 * processors: there the tasks stop.
 */
#include <errno.h>
#include <sys/syscall.h>
#include "trace.h"

#define HLT 0xf4	/* SDM: privileged, #GP, which Linux tells as SIGSEGV with SI_KERNEL */

/* linux/membarrier.h */
#define PRIVATE_EXPEDITED_SYNC_CORE (1 << 5)
#define REGISTER_PRIVATE_EXPEDITED_SYNC_CORE (1 << 6)

/* Where a task may have met a hlt whose fault the tracer has not yet handled; or where one stays, for
 * the task was killed that the tracer wrote through. */
#define MET 512
static struct { unsigned family; const struct space *space; int stays; struct patch patch; } met[MET];
static unsigned next_met;

/* A child that was forked meanwhile has the hlt in its memory for good. */
int patch_was_met(struct task *t, uintptr_t rip)
{
	uint8_t byte;

	for (unsigned i = 0; i < MET; i++) {
		if (met[i].patch.start != rip || met[i].family != t->space->family)
			continue;
		if (!memory_read(t->tid, rip, &byte, sizeof byte))
			return met[i].space == t->space;
		return byte != HLT || patch_code(t, &met[i].patch, 1) == PATCHED;
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

static int write_all(struct task *t, const struct patch *p, int n)
{
	int done = 1;

	for (int i = 0; i < n; i++)
		done &= memory_poke(t->tid, p[i].start, p[i].code, (size_t)p[i].length);
	return done;
}

/* Returns 1 if all of it was done. */
static int write_while_running(struct task *t, const struct patch *p, int n)
{
	const uint8_t hlt = HLT;
	unsigned first = next_met;

	for (int i = 0; i < n; i++) {
		met[next_met].family = t->space->family;
		met[next_met].space = t->space;
		met[next_met].patch = p[i];
		next_met = (next_met + 1) % MET;
		memory_poke(t->tid, p[i].start, &hlt, sizeof hlt);
	}
	sync_cores(t);
	for (int i = 0; i < n; i++)
		memory_poke(t->tid, p[i].start + 1, p[i].code + 1, (size_t)p[i].length - 1);
	sync_cores(t);
	int done = 1;
	for (int i = 0; i < n; i++) {
		int is_written = memory_poke(t->tid, p[i].start, p[i].code, 1);

		met[(first + (unsigned)i) % MET].stays = !is_written;
		done &= is_written;
	}
	return done;
}

void patch_rest(struct task *t)
{
	int stopped = 0;
	uint8_t byte;

	for (unsigned i = 0; i < MET; i++) {
		const struct patch patch = met[i].patch;

		if (!met[i].stays || met[i].space != t->space || met[i].family != t->space->family)
			continue;
		met[i].stays = 0;
		if (memory_read(t->tid, patch.start, &byte, sizeof byte) && byte == HLT && (stopped || (stopped = finish_syscall(t))))
			patch_code(t, &patch, 1);
	}
}

/* Whether the memory can be written to, by writing what is there. */
static int can_write(struct task *t, const struct patch *p)
{
	uint8_t byte;

	return memory_read(t->tid, p->start, &byte, 1) && memory_poke(t->tid, p->start, &byte, 1);
}

enum patched patch_code(struct task *t, const struct patch *p, int n)
{
	if (n == 0)
		return PATCHED;
	/* A filter that is the program's own may kill for membarrier. */
	if (t->space->users > 1 && !proc_is_sandboxed(t->tid) && sync_cores(t)) {
		if (!can_write(t, p))
			return PATCH_REFUSED;
		return write_while_running(t, p, n) ? PATCHED : PATCH_REFUSED;
	}
	if (!gather(t))
		return PATCH_LATER;
	return write_all(t, p, n) ? PATCHED : PATCH_REFUSED;
}
