/* traps: runs a program and counts its calls to the vsyscall page.
 *
 * usage: traps PROGRAM [ARGUMENT...]
 *
 * A seccomp filter (page.h) stops every thread and child at such a call, which goes on then. Says
 * "traps: N" on stderr at the end. strace cannot see these calls: the kernel makes no system call of them.
 *
 * Exit status: that of the program, 128+N if signal N ended it; 125 for an error of this
 * program's own; 126 the program cannot be executed; 127 it is not there. */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "page.h"

#define EVENTS (PTRACE_O_TRACESECCOMP | PTRACE_O_TRACECLONE | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK | PTRACE_O_TRACEEXEC | PTRACE_O_EXITKILL)

static int broken(const char *what)
{
	fprintf(stderr, "traps: %s: %s\n", what, strerror(errno));
	return 125;
}

/* become is the child: waits to be traced, then is the program. */
static int become(char **argv)
{
	if (ptrace(PTRACE_TRACEME, 0, 0, 0))
		return broken("ptrace");
	raise(SIGSTOP);
	if (set_filter(SECCOMP_RET_TRACE))
		return broken("seccomp");
	execvp(argv[0], argv);
	fprintf(stderr, "traps: %s: %s\n", argv[0], strerror(errno));
	return errno == ENOENT ? 127 : 126;
}

/*
 * stopped looks at why a thread stopped: adds to *calls if it calls the page, and
 * returns the signal that it is to get, 0 for none.
 */
static int stopped(pid_t pid, int status, unsigned long *calls)
{
	siginfo_t info;
	int signal = WSTOPSIG(status);
	if (status >> 16) { /* an event: such a call, a new thread or child, an exec */
		*calls += status >> 16 == PTRACE_EVENT_SECCOMP;
		return 0;
	}
	/* New threads and children begin with a SIGSTOP that nobody sent. */
	if (signal == SIGSTOP && !ptrace(PTRACE_GETSIGINFO, pid, 0, &info) && info.si_pid == 0)
		return 0;
	/* GETSIGINFO fails in a group stop, which is not a signal to deliver. */
	return ptrace(PTRACE_GETSIGINFO, pid, 0, &info) ? 0 : signal;
}

static int follow(pid_t first)
{
	unsigned long calls = 0;
	int status, result = 125;
	pid_t pid;
	while ((pid = waitpid(-1, &status, __WALL)) > 0) {
		if (WIFSTOPPED(status)) {
			/* A thread may be killed between its stop and this. */
			if (ptrace(PTRACE_CONT, pid, 0, stopped(pid, status, &calls)) && errno != ESRCH)
				return broken("ptrace");
		} else if (pid == first) {
			result = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
		}
	}
	fprintf(stderr, "traps: %lu\n", calls);
	return result;
}

int main(int argc, char **argv)
{
	int status;
	if (argc < 2) {
		fputs("usage: traps PROGRAM [ARGUMENT...]\n", stderr);
		return 125;
	}
	pid_t pid = fork();
	if (pid < 0)
		return broken("fork");
	if (pid == 0)
		_exit(become(argv + 1));
	if (waitpid(pid, &status, 0) != pid || !WIFSTOPPED(status))
		return WIFEXITED(status) ? WEXITSTATUS(status) : 125;
	if (ptrace(PTRACE_SETOPTIONS, pid, 0, EVENTS) || ptrace(PTRACE_CONT, pid, 0, 0))
		return broken("ptrace");
	return follow(pid);
}
