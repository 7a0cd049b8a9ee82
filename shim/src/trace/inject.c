/* System calls that a task makes for the tracer, at the first instruction of a program. */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include "trace.h"

#define STOP_SYSCALL (SIGTRAP | 0x80)	/* PTRACE_O_TRACESYSGOOD */

int advance(pid_t t)
{
	int status = 0, sig = 0;

	for (;;) {
		if (ptrace(PTRACE_SYSCALL, t, 0L, (long)sig) || waitpid(t, &status, __WALL) < 0 || !WIFSTOPPED(status))
			return 0;
		if (WSTOPSIG(status) == STOP_SYSCALL)
			return 1;
		sig = status >> 16 ? 0 : WSTOPSIG(status);
		if (sig && sig != SIGSTOP)
			return 0;
	}
}

/* All signals wait, except SIGSTOP: see advance. */
long vfix_call(pid_t t, long number, long a, long b, long c, long d)
{
	struct user_regs_struct before, r;
	uint64_t word, mask, all = ~0ull;
	long result = -ESRCH;

	if (ptrace(PTRACE_GETREGS, t, 0L, &before) || !read_word(t, before.rip, &word) || ptrace(PTRACE_GETSIGMASK, t, 8L, &mask))
		return -ESRCH;
	ptrace(PTRACE_SETSIGMASK, t, 8L, &all);
	before.orig_rax = ~0ul;	/* not in a system call: nothing to restart */
	r = before;
	r.rax = (unsigned long)number, r.rdi = (unsigned long)a, r.rsi = (unsigned long)b, r.rdx = (unsigned long)c;
	r.r10 = (unsigned long)d, r.r8 = ~0ul, r.r9 = 0;
	if (write_word(t, before.rip, (word & ~0xfffful) | 0x050f) &&	/* syscall */
	    !ptrace(PTRACE_SETREGS, t, 0L, &r) && advance(t) && advance(t) && !ptrace(PTRACE_GETREGS, t, 0L, &r))
		result = (long)r.rax;
	write_word(t, before.rip, word);
	ptrace(PTRACE_SETREGS, t, 0L, &before);
	ptrace(PTRACE_SETSIGMASK, t, 8L, &mask);
	return result;
}

/* The page is zero. */
void vfix_fill(pid_t t, uintptr_t to, const void *from, size_t bytes)
{
	uint64_t word;

	for (size_t i = 0; i < bytes; i += sizeof word) {
		memcpy(&word, (const char *)from + i, sizeof word);
		if (word)
			write_word(t, to + i, word);
	}
}
