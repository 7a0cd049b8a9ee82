/* The messages on stderr: an error, hints, one line per call site. */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "trace.h"

int log_fd = -1;

const char help_text[] =
"usage: vfix-trace [--always] COMMAND [ARGUMENT...]\n"
"\n"
"Runs COMMAND and everything that it starts on a kernel without the vsyscall page\n"
"(vsyscall=none), where programs of glibc 2.13 and older die of SIGSEGV, exit status 139.\n"
"It is for programs that neither vfix rebuild nor a preload library reaches: static ones,\n"
"Go programs, downloads. A call site costs some microseconds once, then runs at full speed.\n"
"\n"
"Where the kernel serves the page, vfix-trace simply becomes COMMAND.\n"
"\n"
"  --always   follow COMMAND even where the kernel serves the page\n"
"  --help     print this\n"
"\n"
"  VFIX_HEAL=0   change no code: perform each call, some microseconds every time\n"
"  VFIX_LOG=1    a line on stderr for each call site\n"
"\n"
"As an entrypoint:           ENTRYPOINT [\"/vfix/vfix-trace\", \"/usr/bin/program\"]\n"
"For the RUN of a Dockerfile: SHELL [\"/vfix/vfix-trace\", \"/bin/sh\", \"-c\"]\n"
"\n"
"Signals, job control and the exit status are COMMAND's. As process 1 it also reaps orphans.\n"
"It needs the right to use ptrace, and reports if that is missing. Limits of ptrace:\n"
"gdb and strace cannot trace what is traced already; a setuid program keeps its rights only\n"
"if vfix-trace itself runs with CAP_SYS_PTRACE; without it, a program file that its user may\n"
"execute and not read (mode 0711) is not served. A process made with CLONE_UNTRACED is not\n"
"followed. A site of a library that is first called while SIGSEGV is blocked or ignored leaves\n"
"it unblocked, with the default action.\n"
"\n"
"Exit status: COMMAND's; if it died of a signal, vfix-trace dies of it too (128 + signal as\n"
"process 1); 126 COMMAND cannot be executed, or ptrace is forbidden; 127 it is not there;\n"
"2 usage.\n";

static void say(const char *kind, const char *format, va_list arguments)
{
	char text[1024];

	vsnprintf(text, sizeof text, format, arguments);
	dprintf(STDERR_FILENO, "vfix-trace: %s: %s\n", kind, text);
}

void error(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	say("error", format, arguments);
	va_end(arguments);
}

void hint(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	say("hint", format, arguments);
	va_end(arguments);
}

/* The first number in a file, -1 if it has none. */
static int number_in(const char *path)
{
	char text[16] = "";
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);

	if (fd >= 0)
		close(fd);
	return n > 0 ? atoi(text) : -1;
}

/* error_number is from PTRACE_SEIZE; 0 if the tracer was killed for the attempt. */
void explain_forbidden(int error_number)
{
	int yama = number_in("/proc/sys/kernel/yama/ptrace_scope");

	if (proc_is_traced()) {
		error("vfix-trace is being traced itself, and a program has one tracer at most");
		hint("run strace or gdb without following children (strace without -f)");
		return;
	}
	error("ptrace is forbidden here: %s", error_number ? strerror(error_number) :
	      "a seccomp filter kills processes that use it");
	if (yama == 3)
		hint("kernel.yama.ptrace_scope is 3: no program may use ptrace until this machine "
		     "boots with another value in /etc/sysctl.d");
	else if (yama == 2)
		hint("kernel.yama.ptrace_scope is 2: run with CAP_SYS_PTRACE "
		     "(docker run --cap-add SYS_PTRACE), or on the host: sysctl kernel.yama.ptrace_scope=1");
	if (yama == 3)
		return;
	hint("docker: run with --cap-add SYS_PTRACE; if that is not enough, --security-opt seccomp=unconfined");
	hint("kubernetes: securityContext: {capabilities: {add: [SYS_PTRACE]}}");
}

void log_site(pid_t tid, uintptr_t back, int function, const char *done)
{
	static const char *const names[VFIX_FUNCTIONS] = {
		[VFIX_GETTIMEOFDAY] = "gettimeofday", [VFIX_TIME] = "time", [VFIX_GETCPU] = "getcpu",
	};
	struct mapping m;

	if (log_fd < 0)
		return;
	if (proc_mapping(tid, back, &m) && *m.path)
		dprintf(log_fd, "vfix-trace: %s+0x%lx: %s: %s\n", m.path, back - m.start + m.offset, names[function], done);
	else
		dprintf(log_fd, "vfix-trace: 0x%lx: %s: %s\n", back, names[function], done);
}
