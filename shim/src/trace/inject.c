/*
 * Making a task perform a system call: it is sent to a syscall instruction that it has, with
 * the arguments in its registers, and stopped before it gets any further. No instruction is
 * stepped: the trap of a step would reset the task's handling of SIGTRAP.
 */
#include <errno.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>
#include "trace.h"

#define SYSCALL_STOP (SIGTRAP | 0x80)	/* PTRACE_O_TRACESYSGOOD */
#define MASK_SIZE 8			/* bytes of the kernel's signal mask */

/* What came while it was in the system call, to be had again after. */
struct missed {
	int stop_signal;	/* SIGSTOP cannot be blocked */
	int group_stop;
};

/* Goes on to the next system call stop. 0 if the task is gone. */
static int advance(struct task *t, struct missed *missed)
{
	int status;

	for (;;) {
		if (ptrace(PTRACE_SYSCALL, t->tid, 0L, 0L))
			return 0;
		while (waitpid(t->tid, &status, __WALL) < 0)
			if (errno != EINTR)
				return 0;
		if (!WIFSTOPPED(status)) {
			queue_status(t, status);
			return 0;
		}
		if (WSTOPSIG(status) == SYSCALL_STOP && status >> 16 == 0)
			return 1;
		if (status >> 16 == PTRACE_EVENT_STOP)
			missed->group_stop = 1;
		else if (WSTOPSIG(status) == SIGSTOP)
			missed->stop_signal = 1;
	}
}

static void make_up(struct task *t, const struct missed *missed)
{
	if (missed->stop_signal)
		kill(t->tid, SIGSTOP);
	if (missed->group_stop)
		ptrace(PTRACE_INTERRUPT, t->tid, 0L, 0L); /* tells the group-stop again */
}

int finish_syscall(struct task *t)
{
	struct missed missed = { 0 };
	int done = advance(t, &missed);

	make_up(t, &missed);
	return done;
}

static void set_arguments(struct user_regs_struct *r, uintptr_t instruction, const long a[7])
{
	r->rip = instruction;
	r->orig_rax = ~0ull;
	r->rax = (unsigned long)a[0];
	r->rdi = (unsigned long)a[1];
	r->rsi = (unsigned long)a[2];
	r->rdx = (unsigned long)a[3];
	r->r10 = (unsigned long)a[4];
	r->r8 = (unsigned long)a[5];
	r->r9 = (unsigned long)a[6];
}

long inject(struct task *t, uintptr_t instruction, const long arguments[7])
{
	struct user_regs_struct before, regs;
	struct missed missed = { 0 };
	uint64_t mask, all = ~0ull;
	long result = -ESRCH;

	if (ptrace(PTRACE_GETREGS, t->tid, 0L, &before) ||
	    ptrace(PTRACE_GETSIGMASK, t->tid, (long)MASK_SIZE, &mask) ||
	    ptrace(PTRACE_SETSIGMASK, t->tid, (long)MASK_SIZE, &all))
		return -EPERM;
	regs = before;
	set_arguments(&regs, instruction, arguments);
	if (!ptrace(PTRACE_SETREGS, t->tid, 0L, &regs) &&
	    advance(t, &missed) && advance(t, &missed) && /* into it, and out of it */
	    !ptrace(PTRACE_GETREGS, t->tid, 0L, &regs))
		result = (long)regs.rax;
	before.orig_rax = ~0ull;
	ptrace(PTRACE_SETREGS, t->tid, 0L, &before);
	ptrace(PTRACE_SETSIGMASK, t->tid, (long)MASK_SIZE, &mask);
	make_up(t, &missed);
	return result;
}
