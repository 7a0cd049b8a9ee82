/*
 * A signal that is sent to a whole group of processes (by a service manager, by kill -TERM -GROUP) reaches
 * the command twice: directly, and from the supervisor, which also got it. The command gets it once, with
 * the sender's siginfo.
 */
#include <signal.h>
#include <sys/ptrace.h>
#include <time.h>
#include "trace.h"

#define SIGNALS 65
#define TOGETHER 1	/* maximum seconds between the two from one sender */

static struct arrival {
	pid_t sender;
	int was_forwarded;
	time_t when;		/* 0: no second one is expected */
} last[SIGNALS];

static time_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + 1; /* never 0 */
}

static int is_job_control(int signal)
{
	return signal == SIGCONT || signal == SIGTSTP || signal == SIGTTIN || signal == SIGTTOU || signal == SIGSTOP;
}

/* Whether this is the second one. */
static int is_second(int signal, pid_t sender, int forwarded)
{
	struct arrival *a = &last[signal];

	if (a->when && now() - a->when <= TOGETHER && a->sender == sender && a->was_forwarded != forwarded) {
		a->when = 0;
		return 1;
	}
	*a = (struct arrival){ sender, forwarded, now() };
	return 0;
}

int pass_signal(struct task *t, pid_t command, int signal)
{
	const struct task *c = task_find(command);
	siginfo_t info;

	if (!c || c->space != t->space || ptrace(PTRACE_GETSIGINFO, t->tid, 0L, &info))
		return signal;
	int forwarded = info.si_code == SI_QUEUE && (info.si_errno == FORWARDED || info.si_errno == FORWARDED_VALUE);
	if (forwarded) {
		info.si_code = info.si_errno == FORWARDED ? SI_USER : SI_QUEUE;
		info.si_errno = 0;
		ptrace(PTRACE_SETSIGINFO, t->tid, 0L, &info);
	}
	if ((info.si_code != SI_USER && info.si_code != SI_QUEUE) || is_job_control(signal))
		return signal;
	return is_second(signal, info.si_pid, forwarded) ? 0 : signal;
}
