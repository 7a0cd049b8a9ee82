/* vfix-trace: its command line, and how it starts to trace. See trace.h. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include "trace.h"

int heals = 1, log_fd = -1;

static const char help[] =
	"usage: vfix-trace [--always] [--] COMMAND [ARGUMENT...]\n"
	"Executes COMMAND, and serves its calls of the vsyscall page, and those of all\n"
	"programs that it starts, if the kernel does not.\n"
	"  --always   also if the kernel does\n"
	"VFIX_HEAL=0 changes no code, VFIX_LOG=1 reports each call site.\n"
	"It needs ptrace, but no CAP_SYS_PTRACE: setuid programs lose their rights without.\n"
	"Exit status: that of COMMAND; 126 COMMAND cannot be executed or traced,\n"
	"127 COMMAND was not found, 2 usage error.\n";

static const char hint[] =
	"vfix-trace: hint: in a container, --cap-add SYS_PTRACE or --security-opt seccomp=PROFILE allows it;\n"
	"vfix-trace: hint: kernel.yama.ptrace_scope=1 allows it, 2 needs CAP_SYS_PTRACE, 3 forbids it;\n"
	"vfix-trace: hint: a debugger or strace -f that traces vfix-trace prevents it\n";

struct tracer {
	pid_t pid;	/* 0 without one */
	int error;	/* why there is none, or 0 */
};

/* Closes all descriptors but the log, so that pipes end with the command. */
static void let_go(void)
{
	int last = log_fd >= 0 ? dup3(2, 0, O_CLOEXEC) : -1;

	log_fd = last;
	if (syscall(SYS_close_range, last + 1, ~0u, 0))
		for (int fd = last + 1; fd < 65536; fd++)
			close(fd);
	setsid();
	errno = chdir("/");
}

/* The tracer: attaches to its parent, and reports the result to it. */
static _Noreturn void trace(pid_t command, int report)
{
	const long options = PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK | PTRACE_O_TRACECLONE | PTRACE_O_TRACEEXEC | PTRACE_O_TRACESYSGOOD;
	int result = ptrace(PTRACE_SEIZE, command, 0L, options) ? errno : 0;

	if (write(report, &result, sizeof result) < 0 || result)
		_exit(1);
	let_go();
	follow(command);
}

/* The tracer is a child without a signal at its end, which only a wait with __WALL or __WCLONE finds. Its signals are
 * blocked. kernel.yama.ptrace_scope=1 requires the permission, which ends here. */
static struct tracer start(void)
{
	struct tracer t = { 0, 0 };
	uint64_t all = ~0ull, mask;
	pid_t self = getpid();
	int report[2];

	if (pipe2(report, O_CLOEXEC))
		return t.error = errno, t;
	syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, &mask, sizeof mask);
	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
	t.pid = (pid_t)syscall(SYS_clone, 0, 0, 0, 0, 0);
	if (t.pid == 0)
		trace(self, report[1]);
	close(report[1]);
	if (t.pid < 0)
		t.error = errno;
	else if (read(report[0], &t.error, sizeof t.error) != sizeof t.error)
		t.error = EPERM;	/* a filter ended it */
	if (t.pid > 0 && t.error) {
		waitpid(t.pid, NULL, __WALL);
		t.pid = 0;
	}
	close(report[0]);
	prctl(PR_SET_PTRACER, 0);
	syscall(SYS_rt_sigprocmask, SIG_SETMASK, &mask, 0, sizeof mask);
	return t;
}

/* Whether a call of the page works here, as the kernel or another vfix-trace serves it. */
static int is_served(void)
{
	volatile uintptr_t complement = ~(VFIX_PAGE + ENTRY_BYTES);	/* so that this program has no call site */
	int status = 1;
	pid_t child = (pid_t)syscall(SYS_clone, 0, 0, 0, 0, 0);

	if (child == 0) {
		setrlimit(RLIMIT_CORE, &(struct rlimit){ 0, 0 });
		prctl(PR_SET_DUMPABLE, 0);	/* no crash handler of the host reports it */
		signal(SIGSEGV, SIG_DFL);
		((long (*)(long *))~complement)(NULL);
		_exit(0);
	}
	return child > 0 && waitpid(child, &status, __WALL) == child && WIFEXITED(status);
}

/* Executes the command; a tracer that is left, because that failed, ends. */
static int execute(const char *path, char **argv, const struct tracer *t)
{
	if (path)
		execve(path, argv, environ);
	else
		execvp(argv[0], argv);
	int error = errno;
	if (t->pid) {
		kill(t->pid, SIGKILL);
		waitpid(t->pid, NULL, __WALL);
	}
	dprintf(2, "vfix-trace: error: %s: %s\n", path ? path : argv[0], error == ENOENT ? "not found" : strerror(error));
	return error == ENOENT ? 127 : 126;
}

static int misused(const char *why)
{
	dprintf(2, "vfix-trace: error: %s\nvfix-trace: hint: vfix-trace --help\n", why);
	return 2;
}

int main(int argc, char **argv)
{
	const char *heal = getenv("VFIX_HEAL"), *log = getenv("VFIX_LOG");
	struct tracer t = { 0, 0 };
	int always = 0;

	heals = !heal || strcmp(heal, "0");
	log_fd = log && !strcmp(log, "1") ? 2 : -1;
	if (argc > 3 && !strcmp(argv[1], "--exec")) {	/* PATH ARGV: from libvfix.so; nothing is worse than without it */
		if (!is_served())
			t = start();
		return execute(argv[2], argv + 3, &t);
	}
	for (argv++; *argv && **argv == '-' && strcmp(*argv, "--"); argv++) {
		if (!strcmp(*argv, "--help"))
			return dprintf(1, "%s", help) < 0;
		if (strcmp(*argv, "--always"))
			return misused(*argv);
		always = 1;
	}
	if (*argv && !strcmp(*argv, "--"))
		argv++;
	if (!*argv)
		return misused("no command");
	if (always || !is_served())
		t = start();
	if (t.error) {
		dprintf(2, "vfix-trace: error: ptrace is forbidden here: %s\n%s", strerror(t.error), hint);
		return 126;
	}
	return execute(NULL, argv, &t);
}
