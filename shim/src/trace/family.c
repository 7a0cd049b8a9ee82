/* Which tasks share memory: the effect of fork, clone and exec on the spaces. */
#include <sched.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include "trace.h"

#define PATIENCE_US 5000	/* for a parent to report its child */
#define X86_64_CODE 0x33	/* asm/segment.h: __USER_CS, the code segment of 64-bit tasks */

/* Whether the child that t has just created shares its memory. */
static int child_shares_memory(const struct task *t)
{
	struct user_regs_struct regs;
	uint64_t flags = 0;

	if (ptrace(PTRACE_GETREGS, t->tid, 0L, &regs) || regs.cs != X86_64_CODE)
		return 0; /* a 32-bit program has no 64-bit call sites */
	switch (regs.orig_rax) {
	case SYS_vfork:
		return 1;
	case SYS_clone:
		return (regs.rdi & CLONE_VM) != 0;
	case SYS_clone3: /* its argument begins with the flags: struct clone_args */
		memory_read(t->tid, regs.rdi, &flags, sizeof flags);
		return (flags & CLONE_VM) != 0;
	}
	return 0;
}

/* Other threads may have changed the space after the fork and before its report: then the child has the
 * memory from before. */
static struct space *copy_of(const struct task *t, struct task *child)
{
	struct space *s = space_copy(t->space);

	if (t->space->users == 1)
		return s;
	if (s->state == MAPPED && !vfix_has_trampolines(child, s->code))
		s->state = UNTRIED;
	memset(s->seen, 0, sizeof s->seen);
	s->swept = 0;
	return s;
}

/* spaces: the old and the new one. */
static void move(struct task *t, void *spaces)
{
	struct space **from_to = spaces;

	if (t->space == from_to[0])
		task_set_space(t, from_to[1]);
}

/* The child may have been seen before, and released on its own (release). */
void adopt(struct task *t)
{
	unsigned long tid = 0;

	if (ptrace(PTRACE_GETEVENTMSG, t->tid, 0L, &tid) || tid == 0)
		return;
	struct task *child = task_find((pid_t)tid);
	int waiting = child && !child->space && child->state == STOPPED;

	if (!child)
		child = task_add((pid_t)tid, NULL);
	int was_released = child->was_released;
	child->was_released = 0;
	if (was_released && !child->space->provisional)
		return; /* it has executed a program since */
	struct space *space = child_shares_memory(t) ? t->space : copy_of(t, child);
	if (was_released) /* with those that it has created since */
		task_each(move, (struct space *[]){ child->space, space });
	else
		task_set_space(child, space);
	if (waiting)
		resume(child, 0);
}

/*
 * A child that is seen first waits until its parent reports it, which happens soon, unless the parent was
 * killed: then the child would wait forever. A thread that creates another is not killed without it.
 */
static void release(struct task *t, void *unused)
{
	(void)unused;
	if (t->space || t->queued || proc_is_thread(t->tid))
		return;
	task_set_space(t, space_new());
	t->space->provisional = 1;
	t->was_released = 1;
	t->space->vdso = proc_start_values(t->tid).vdso;
	resume(t, 0);
}

static void set_alarm(long us)
{
	setitimer(ITIMER_REAL, &(struct itimerval){ { 0, us }, { 0, us } }, NULL);
}

void await_parent(void)
{
	set_alarm(PATIENCE_US);
}

void release_unknown(void)
{
	set_alarm(0);
	task_each(release, NULL);
}

/* After an exec there is one thread; its tid is that of the process, whatever it was before. */
void renew(struct task *t)
{
	unsigned long former = 0;

	if (!ptrace(PTRACE_GETEVENTMSG, t->tid, 0L, &former) && (pid_t)former != t->tid) {
		struct task *old = task_find((pid_t)former);
		if (old && !old->queued)
			task_remove(old);
	}
	task_set_space(t, space_new());
	struct start_values start = proc_start_values(t->tid);
	t->space->vdso = start.vdso;
	/* A program without libraries: its sites are found before any of them faults. */
	if (heal_enabled && start.vdso && !start.interpreter && finish_syscall(t))
		sweep(t, start.entry + 1);
}
