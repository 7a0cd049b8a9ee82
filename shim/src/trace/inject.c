/*
 * Makes a task perform a system call: the task continues at a syscall instruction in its memory, with the
 * arguments in its registers, and stops directly after it. No instruction is single-stepped: the trap of a
 * step would reset the task's handling of SIGTRAP.
 */
#include <errno.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>
#include "trace.h"

#define SYSCALL_STOP (SIGTRAP | 0x80)	/* PTRACE_O_TRACESYSGOOD */
#define MASK_SIZE 8			/* bytes of the kernel's signal mask */

/* Continues to the next system call stop; sets group_stop if there were group-stops on the way. SIGSTOP,
 * which cannot be blocked, takes effect immediately: if it were sent again later, it would follow a SIGCONT
 * that was sent after it. Returns 0 if the task is gone, or has faulted, which it would do forever. */
static int advance(struct task *t, int *group_stop)
{
	long signal = 0;
	int status;

	for (;;) {
		if (ptrace(PTRACE_SYSCALL, t->tid, 0L, signal))
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
		signal = 0;
		if (status >> 16 == PTRACE_EVENT_STOP)
			*group_stop = 1;
		else if (WSTOPSIG(status) == SIGSTOP)
			signal = SIGSTOP;
		else if (WSTOPSIG(status) == SIGSEGV)
			return 0;
	}
}

/* Reports a group-stop during the call again. */
static void make_up(struct task *t, int group_stop)
{
	if (group_stop)
		ptrace(PTRACE_INTERRUPT, t->tid, 0L, 0L);
}

int finish_syscall(struct task *t)
{
	int group_stop = 0, done = advance(t, &group_stop);

	make_up(t, group_stop);
	return done;
}

int is_gone(const struct task *t)
{
	struct user_regs_struct regs;

	return ptrace(PTRACE_GETREGS, t->tid, 0L, &regs) && errno == ESRCH;
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
	int group_stop = 0;
	uint64_t mask, all = ~0ull;
	long result = -ESRCH;

	if (ptrace(PTRACE_GETREGS, t->tid, 0L, &before) ||
	    ptrace(PTRACE_GETSIGMASK, t->tid, (long)MASK_SIZE, &mask) ||
	    ptrace(PTRACE_SETSIGMASK, t->tid, (long)MASK_SIZE, &all))
		return -ESRCH;
	regs = before;
	set_arguments(&regs, instruction, arguments);
	if (!ptrace(PTRACE_SETREGS, t->tid, 0L, &regs) &&
	    advance(t, &group_stop) && advance(t, &group_stop) && /* the entry, then the exit */
	    !ptrace(PTRACE_GETREGS, t->tid, 0L, &regs))
		result = (long)regs.rax;
	before.orig_rax = ~0ull;
	ptrace(PTRACE_SETREGS, t->tid, 0L, &before);
	ptrace(PTRACE_SETSIGMASK, t->tid, (long)MASK_SIZE, &mask);
	make_up(t, group_stop);
	return result;
}
