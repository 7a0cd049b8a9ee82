/*
 * The supervisor starts the tracer and the command, and represents the command to other processes: it
 * forwards signals, stops when the command stops, and ends as the command ends. As process 1 it reaps
 * orphans.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "trace.h"
#include "start.h"

static pid_t command, tracer;
static int from_tracer;

/* A signal from the terminal reaches the command directly, as it is in the same process group. But the
 * terminal's end is signaled only to the session leader. */
static void forward(const siginfo_t *info)
{
	int from_terminal = info->si_code == SI_KERNEL;

	if (info->si_code > 0 && !from_terminal)
		return;
	if (from_terminal && !(getsid(0) == getpid() && (info->si_signo == SIGHUP || info->si_signo == SIGCONT)))
		return;
	/* If both got it, the tracer passes it to the command once, with the original sender. */
	siginfo_t marked = *info;

	marked.si_errno = info->si_code == SI_QUEUE ? FORWARDED_VALUE : FORWARDED;
	marked.si_code = SI_QUEUE;
	if (from_terminal || syscall(SYS_rt_sigqueueinfo, command, info->si_signo, &marked))
		kill(command, info->si_signo);
}

/*
 * Stops as the command did, and continues the command when this process continues. A terminal's stop signal
 * has no effect in an orphaned process group, which the command may have left; no stop signal has an effect
 * on process 1.
 */
static void stop_as(int stop_signal)
{
	sigset_t one, before;

	if (getpid() == 1)
		return;
	if (getpgid(command) != getpgrp())
		stop_signal = SIGSTOP;
	sigemptyset(&one);
	sigaddset(&one, stop_signal);
	signal(stop_signal, SIG_DFL);
	kill(getpid(), stop_signal);
	sigprocmask(SIG_UNBLOCK, &one, &before);
	sigprocmask(SIG_SETMASK, &before, NULL);
	kill(command, SIGCONT);
	sigemptyset(&one);
	sigaddset(&one, SIGCONT); /* it may be pending, if a stop signal has not removed it */
	sigtimedwait(&one, NULL, &(struct timespec){ 0 });
}

/* Unless the tracer has more tasks to follow, it ends now, and is reaped here: process 1 may not reap
 * orphans. */
static void reap_tracer(void)
{
	char byte;

	if (read(from_tracer, &byte, 1) == 0)
		waitpid(tracer, NULL, 0);
}

static void reap(void)
{
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG | WUNTRACED)) > 0) {
		if (pid != command)
			continue;
		if (!WIFSTOPPED(status)) {
			reap_tracer();
			end_as(status);
		}
		stop_as(WSTOPSIG(status));
	}
}

/* The tracer cannot trace; nothing has been executed yet. */
static _Noreturn void give_up(int error_number)
{
	explain_forbidden(error_number);
	kill(command, SIGKILL);
	waitpid(command, NULL, 0);
	_exit(STATUS_FORBIDDEN);
}

/* A pipe that the command does not inherit. */
static void make_pipe(int ends[2])
{
	if (pipe2(ends, O_CLOEXEC)) {
		error("pipe: %m");
		_exit(STATUS_FORBIDDEN);
	}
}

static pid_t make_process(void)
{
	pid_t pid = fork();

	if (pid < 0) {
		error("fork: %m");
		_exit(STATUS_FORBIDDEN);
	}
	return pid;
}

_Noreturn void supervise(char **arguments)
{
	struct start s = { .supervisor = getpid() };
	sigset_t all;
	siginfo_t info;
	int error_number = 0;

	make_pipe(s.pid);
	make_pipe(s.go);
	make_pipe(s.result);
	memset(&all, 0xff, sizeof all);
	set_mask((const uint64_t *)&all, &s.mask);
	sigaction(SIGCHLD, &(struct sigaction){ .sa_handler = SIG_DFL }, &s.on_child);
	if ((tracer = make_process()) == 0)
		start_tracer(&s);
	if ((command = make_process()) == 0)
		start_command(&s, tracer, arguments);
	close(s.pid[1]);
	close(s.go[1]);
	close(s.result[1]);
	if (read(s.result[0], &error_number, sizeof error_number) != sizeof error_number)
		give_up(0);
	if (error_number)
		give_up(error_number);
	/* Files that the command closes must really be closed: a pipe's reader would wait forever. */
	from_tracer = s.result[0];
	close_all(from_tracer, -1);
	for (;;) {
		int signal = sigwaitinfo(&all, &info);

		if (signal == SIGCHLD)
			reap();
		else if (signal > 0)
			forward(&info);
	}
}
