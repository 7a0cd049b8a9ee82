/*
 * The tracer's loop: one stop of one task at a time (ptrace(2)). There are no stops at system calls, so
 * tasks run at full speed except at signals, forks and execs.
 */
#include <errno.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>
#include "trace.h"

static pid_t supervisor;
static int report;
static volatile pid_t command;	/* 0 once it has ended */

static int is_stopping(int signal)
{
	return signal == SIGSTOP || signal == SIGTSTP || signal == SIGTTIN || signal == SIGTTOU;
}

/* A group-stop, its end, the first stop of a child, or the stop that gather() requested. */
static void handle_stop(struct task *t, enum task_state before, int signal)
{
	if (is_stopping(signal)) {
		t->state = LISTENING;
		ptrace(PTRACE_LISTEN, t->tid, 0L, 0L);
		return;
	}
	/* The supervisor stopped with the command. If another process continued the command, the supervisor is
	 * still stopped; if the supervisor did, another SIGCONT would remove the next stop signal sent to it.
	 * */
	if (before == LISTENING && t->tid == command && proc_is_stopped(supervisor))
		kill(supervisor, SIGCONT);
	if (t->space)
		resume(t, 0);
	else
		await_parent();
}

/* The command has ended: a byte reports that the tracer is still needed, otherwise the pipe is closed. */
static void report_end(void)
{
	siginfo_t info;

	command = 0;
	if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT | __WALL) == 0 && write(report, "", 1) < 0)
		errno = 0; /* no process to report to */
	close(report);
}

static void handle(struct task *t, int status)
{
	enum task_state before = t->state;
	int signal = WSTOPSIG(status);

	if (!WIFSTOPPED(status)) {
		if (t->tid == command)
			report_end();
		task_remove(t);
		return;
	}
	t->state = STOPPED;
	switch (status >> 16) {
	case 0:
		resume(t, signal == SIGSEGV && fix_fault(t) ? 0 : pass_signal(t, command, signal));
		break;
	case PTRACE_EVENT_STOP:
		handle_stop(t, before, signal);
		break;
	case PTRACE_EVENT_FORK:
	case PTRACE_EVENT_CLONE:
		adopt(t);
		resume(t, 0);
		break;
	case PTRACE_EVENT_VFORK:
		adopt(t);
		resume(t, 0);
		t->state = VFORKING;
		break;
	case PTRACE_EVENT_VFORK_DONE:
		patch_rest(t);
		resume(t, 0);
		break;
	case PTRACE_EVENT_EXEC:
		renew(t);
		/* fall through */
	default:
		resume(t, 0);
	}
}

/* The supervisor ends after the command; otherwise it was killed, and so is the command. Other processes
 * may also send this signal. */
static void on_supervisor_death(int signal)
{
	(void)signal;
	if (command && getppid() != supervisor)
		kill(command, SIGKILL);
}

/* await_parent has timed out: waitpid returns EINTR. */
static void on_alarm(int signal)
{
	(void)signal;
}

#define TURN 16	/* stops that are handled in the kernel's order, newest task first */

void follow(pid_t command_pid, pid_t supervisor_pid, int report_fd)
{
	struct sigaction action = { .sa_handler = on_supervisor_death };
	sigset_t used;

	command = command_pid;
	supervisor = supervisor_pid;
	report = report_fd;
	signal(SIGPIPE, SIG_IGN);
	sigaction(SIGUSR1, &action, NULL);
	action.sa_handler = on_alarm;
	sigaction(SIGALRM, &action, NULL);
	/* A signal to a whole group of processes, or to all, is not for this one. */
	sigemptyset(&used);
	sigaddset(&used, SIGUSR1);
	sigaddset(&used, SIGALRM);
	sigprocmask(SIG_UNBLOCK, &used, NULL);
	watch(supervisor);
	task_add(command, space_new());
	for (unsigned handled = 0;;) {
		int status;

		struct task *kept = unqueue(&status);
		if (kept) {
			handle(kept, status);
			continue;
		}
		pid_t tid = waitpid(-1, &status, __WALL);
		if (tid < 0 && errno != EINTR)
			return;
		if (tid < 0)
			release_unknown();
		if (tid > 0) {
			struct task *t = task_find(tid);
			handle(t ? t : task_add(tid, NULL), status);
			if (++handled % TURN == 0)
				queue_all();
		}
	}
}
