/*
 * The tracer's loop: one stop of one task at a time (ptrace(2)). Nothing stops at system
 * calls, so that tasks run at full speed but for signals, forks and execs.
 */
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include "trace.h"

#define X86_64_CODE 0x33	/* asm/segment.h: __USER_CS, the code segment of 64-bit tasks */

static struct task *queue, **queue_end = &queue;
static pid_t supervisor;
static int report;
static volatile pid_t command;	/* 0 once it has ended */

/* Keeps a stop that was met while looking for another. */
void queue_status(struct task *t, int status)
{
	t->status = status;
	t->queued = 1;
	t->next_queued = NULL;
	*queue_end = t;
	queue_end = &t->next_queued;
}

static struct task *unqueue(int *status)
{
	struct task *t = queue;

	queue = t->next_queued;
	if (!queue)
		queue_end = &queue;
	t->queued = 0;
	*status = t->status;
	return t;
}

static void resume(struct task *t, int signal)
{
	t->state = RUNNING;
	ptrace(PTRACE_CONT, t->tid, 0L, (long)signal); /* fails if it was killed meanwhile */
}

/* Whether the child that t has just made shares its memory. */
static int child_shares_memory(const struct task *t)
{
	struct user_regs_struct regs;
	uint64_t flags = 0;

	if (ptrace(PTRACE_GETREGS, t->tid, 0L, &regs) || regs.cs != X86_64_CODE)
		return 0; /* a 32-bit program has no 64-bit call sites */
	switch (regs.orig_rax) {
	case SYS_vfork:
		return 1;
	case SYS_clone:
		return (regs.rdi & CLONE_VM) != 0;
	case SYS_clone3: /* its argument begins with the flags: struct clone_args */
		memory_read(t->tid, regs.rdi, &flags, sizeof flags);
		return (flags & CLONE_VM) != 0;
	}
	return 0;
}

/* t has made a child, which may have been seen before. If t's stop was kept while its space
 * was changed, the child has its memory from before. */
static void adopt(struct task *t, int was_kept)
{
	unsigned long tid = 0;

	if (ptrace(PTRACE_GETEVENTMSG, t->tid, 0L, &tid) || tid == 0)
		return;
	struct task *child = task_find((pid_t)tid);
	int waiting = child && !child->space && child->state == STOPPED;

	if (!child)
		child = task_add((pid_t)tid, NULL);
	if (child_shares_memory(t))
		task_set_space(child, t->space);
	else
		task_set_space(child, was_kept ? space_new() : space_copy(t->space));
	if (waiting)
		resume(child, 0);
}

/* A child whose parent was killed before it could say so would wait for ever. */
static void release(struct task *t, void *unused)
{
	(void)unused;
	if (t->space || t->queued)
		return;
	task_set_space(t, space_new());
	t->space->provisional = 1;
	resume(t, 0);
}

/* After an exec there is one thread, whatever its tid was, and its tid is the process's. */
static void renew(struct task *t)
{
	unsigned long former = 0;

	if (!ptrace(PTRACE_GETEVENTMSG, t->tid, 0L, &former) && (pid_t)former != t->tid) {
		struct task *old = task_find((pid_t)former);
		if (old && !old->queued)
			task_remove(old);
	}
	task_set_space(t, space_new());
}

static int is_stopping(int signal)
{
	return signal == SIGSTOP || signal == SIGTSTP || signal == SIGTTIN || signal == SIGTTOU;
}

/* A group-stop, its end, the first stop of a child, or the stop that gather() asked for. */
static void handle_stop(struct task *t, enum task_state before, int signal)
{
	if (is_stopping(signal)) {
		t->state = LISTENING;
		ptrace(PTRACE_LISTEN, t->tid, 0L, 0L);
		return;
	}
	/* The supervisor stopped with the command. If it is not who let it go on, it sleeps
	 * still; if it is, another SIGCONT would remove the next stop signal sent to it. */
	if (before == LISTENING && t->tid == command && proc_is_stopped(supervisor))
		kill(supervisor, SIGCONT);
	if (t->space)
		resume(t, 0);
}

/* The command has ended: a byte says that the tracer is needed still, the pipe's end else. */
static void report_end(void)
{
	siginfo_t info;

	command = 0;
	if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT | __WALL) == 0 && write(report, "", 1) < 0)
		errno = 0; /* nobody is there to be told */
	close(report);
}

static void handle(struct task *t, int status, int was_kept)
{
	enum task_state before = t->state;
	int signal = WSTOPSIG(status);

	if (!WIFSTOPPED(status)) {
		if (t->tid == command)
			report_end();
		task_remove(t);
		task_each(release, NULL);
		return;
	}
	t->state = STOPPED;
	switch (status >> 16) {
	case 0:
		resume(t, signal == SIGSEGV && fix_fault(t) ? 0 : signal);
		break;
	case PTRACE_EVENT_STOP:
		handle_stop(t, before, signal);
		break;
	case PTRACE_EVENT_FORK:
	case PTRACE_EVENT_CLONE:
		adopt(t, was_kept);
		resume(t, 0);
		break;
	case PTRACE_EVENT_VFORK:
		adopt(t, was_kept);
		resume(t, 0);
		t->state = VFORKING;
		break;
	case PTRACE_EVENT_EXEC:
		renew(t);
		/* fall through */
	default:
		resume(t, 0);
	}
}

/* The supervisor ends after the command: else it was killed, and so is the command. */
static void on_supervisor_death(int signal)
{
	(void)signal;
	if (command)
		kill(command, SIGKILL);
}

void follow(pid_t command_pid, pid_t supervisor_pid, int report_fd)
{
	struct sigaction action = { .sa_handler = on_supervisor_death };
	sigset_t none;

	command = command_pid;
	supervisor = supervisor_pid;
	report = report_fd;
	signal(SIGPIPE, SIG_IGN);
	sigaction(SIGUSR1, &action, NULL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	task_add(command, space_new());
	for (;;) {
		int status;

		if (queue) {
			struct task *t = unqueue(&status);
			handle(t, status, 1);
			continue;
		}
		pid_t tid = waitpid(-1, &status, __WALL);
		if (tid < 0 && errno != EINTR)
			return;
		if (tid > 0) {
			struct task *t = task_find(tid);
			handle(t ? t : task_add(tid, NULL), status, 0);
		}
	}
}
