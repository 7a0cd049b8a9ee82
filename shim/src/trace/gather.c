/*
 * Stops every other task that could run the code that is about to change. Tasks that are already stopped,
 * or that will stop before they run, are skipped.
 */
#include <errno.h>
#include <sched.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <time.h>
#include "trace.h"

/* A task in an uninterruptible sleep may not stop for long. The site is then emulated once more, and its
 * next call tries again. */
static const long patience_ns = 20000000;
static const long pause_ns = 20000;

#define SYSCALL_BYTES 2	/* of the instruction */

struct gathering {
	const struct task *self;
	int running;
};

static int may_run(const struct task *t, const struct task *self)
{
	return t != self && t->space == self->space && t->state == RUNNING;
}

static void interrupt(struct task *t, void *argument)
{
	struct gathering *g = argument;

	if (may_run(t, g->self) && !ptrace(PTRACE_INTERRUPT, t->tid, 0L, 0L))
		g->running++;
}

/* epoll_wait and similar calls return EINTR after a requested stop: the task makes the call again, unless a
 * signal is pending, whose handler may rely on it. */
static void restart(pid_t tid)
{
	struct user_regs_struct regs;

	if (ptrace(PTRACE_GETREGS, tid, 0L, &regs) || (long)regs.orig_rax < 0 || (long)regs.rax != -EINTR || proc_has_signal(tid))
		return;
	regs.rax = regs.orig_rax;
	regs.rip -= SYSCALL_BYTES;
	ptrace(PTRACE_SETREGS, tid, 0L, &regs);
}

/* Any stop is sufficient: the requested one comes later, and is continued then. */
static void collect(struct task *t, void *argument)
{
	struct gathering *g = argument;
	int status;

	if (!may_run(t, g->self))
		return;
	if (waitpid(t->tid, &status, __WALL | WNOHANG) == t->tid) {
		t->state = STOPPED;
		if (status >> 16 == PTRACE_EVENT_STOP)
			restart(t->tid);
		queue_status(t, status);
		g->running--;
	} else if (proc_is_dead(t->tid)) {
		/* A first thread that ended before the others remains, and stops no more. */
		t->state = DEAD;
		g->running--;
	}
}

static long now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000L + t.tv_nsec;
}

int gather(struct task *t)
{
	struct gathering g = { .self = t };
	long end;

	if (t->space->users == 1)
		return 1;
	task_each(interrupt, &g);
	end = now_ns() + patience_ns;
	while (g.running > 0) {
		task_each(collect, &g);
		if (g.running > 0) {
			if (now_ns() > end)
				return 0;
			nanosleep(&(struct timespec){ .tv_nsec = pause_ns }, NULL);
		}
	}
	return 1;
}
