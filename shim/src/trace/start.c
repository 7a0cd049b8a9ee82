/*
 * The beginning of the tracer and of the command:
 *
 *	command: allows the tracer to trace it, sends its pid, waits
 *	tracer: seizes it, informs the supervisor, lets it go
 *	command: executes
 *
 * PTRACE_O_EXITKILL is not set: if the tracer is killed, the traced programs continue, and healed sites
 * remain healed.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "trace.h"
#include "start.h"

#ifndef SYS_close_range
#define SYS_close_range 436	/* Linux 5.9 */
#endif
#define FILES_MAX 65536		/* if close_range does not exist */

/* The C library's function omits the signals that it uses itself. */
void set_mask(const uint64_t *mask, uint64_t *before)
{
	syscall(SYS_rt_sigprocmask, SIG_SETMASK, mask, before, sizeof *mask);
}

static const long options = PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK | PTRACE_O_TRACECLONE |
	PTRACE_O_TRACEEXEC | PTRACE_O_TRACEVFORKDONE | PTRACE_O_TRACESYSGOOD;

/* Closes from first up to last. */
static void close_between(int first, int last)
{
	struct rlimit limit = { FILES_MAX, FILES_MAX };

	if (first > last || !syscall(SYS_close_range, first, last, 0))
		return;
	getrlimit(RLIMIT_NOFILE, &limit);
	if (last > FILES_MAX)
		last = limit.rlim_cur < FILES_MAX ? (int)limit.rlim_cur : FILES_MAX;
	for (int fd = first; fd <= last; fd++)
		close(fd);
}

void close_all(int except, int and_except)
{
	int low = except < and_except ? except : and_except;
	int high = except < and_except ? and_except : except;

	close_between(0, low - 1);
	close_between(low + 1, high - 1);
	close_between(high + 1, 0x7fffffff);
}

/* The tracer keeps none of the command's files, terminal or directory, except stderr if it must log. */
static void settle(void)
{
	setsid();
	if (chdir("/") < 0)
		errno = 0; /* then the directory does not change */
	if (log_fd >= 0)
		log_fd = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 0);
}

_Noreturn void start_tracer(struct start *s)
{
	pid_t command = 0;
	int result = 0;

	close(s->pid[1]);
	if (getppid() != s->supervisor || read(s->pid[0], &command, sizeof command) != sizeof command)
		_exit(1);
	if (ptrace(PTRACE_SEIZE, command, 0L, options))
		result = errno;
	if (write(s->result[1], &result, sizeof result) != sizeof result || result)
		_exit(1);
	settle();
	if (write(s->go[1], "", 1) != 1)
		_exit(1);
	close_all(log_fd, s->result[1]);
	proc_open();
	follow(command, s->supervisor, s->result[1]);
	_exit(0);
}

_Noreturn void start_command(struct start *s, pid_t tracer, char **arguments)
{
	pid_t self = getpid();
	char byte;

	/* For kernel.yama.ptrace_scope=1, as the tracer is not an ancestor. On other systems this fails. */
	prctl(PR_SET_PTRACER, tracer);
	close(s->go[1]);
	close(s->result[1]);
	if (write(s->pid[1], &self, sizeof self) != sizeof self || read(s->go[0], &byte, 1) != 1)
		_exit(STATUS_FORBIDDEN);
	sigaction(SIGCHLD, &s->on_child, NULL);
	set_mask(&s->mask, NULL);
	execute(arguments);
}
