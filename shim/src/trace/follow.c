/* The stops of all traced tasks. */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>
#include "trace.h"

#define TURNS 256	/* stops that are taken at once */

/* The task's stand-in. The memory of a program that gave up rights cannot be read (PR_SET_DUMPABLE); then it is
 * taken to be at the first address. */
static uintptr_t find_page(pid_t t)
{
	uint64_t word, mark;

	memcpy(&mark, vfix_stand_in + MARK, sizeof mark);
	for (size_t i = 0; i < sizeof stand_in_tops; i++)
		if (read_word(t, stand_in_at(stand_in_tops[i]) + MARK, &word) && word == mark)
			return stand_in_at(stand_in_tops[i]);
	return stand_in_at(stand_in_tops[0]);
}

/* A call of the page continues in the stand-in: the return address is on the stack already. */
static int redirect(pid_t t)
{
	struct user_regs_struct r;
	siginfo_t info;
	unsigned char code[AFTER_CALL];
	uint64_t back;

	if (ptrace(PTRACE_GETREGS, t, 0L, &r) || entry_at(r.rip) < 0)
		return 0;
	if (ptrace(PTRACE_GETSIGINFO, t, 0L, &info) || info.si_code <= 0)
		return 0;
	uintptr_t page = find_page(t);
	if (heals && read_word(t, r.rsp, &back) && read_memory(t, back - AFTER_CALL, code, sizeof code) && is_site(code) &&
	    is_private_code(t, back - AFTER_CALL + SITE_TOP) && write_byte(t, back - AFTER_CALL + SITE_TOP, (unsigned char)(page >> 24)))
		say(t, back - AFTER_CALL, "changed");
	else
		say(t, r.rip, "served");
	r.rip = page + (uintptr_t)entry_at(r.rip) * ENTRY_BYTES;
	r.orig_rax = ~0ul;
	return !ptrace(PTRACE_SETREGS, t, 0L, &r);
}

static void handle(pid_t t, int status, pid_t *command)
{
	int sig = WSTOPSIG(status), event = status >> 16, deliver = 0;

	if (!WIFSTOPPED(status))
		return;
	if (event == PTRACE_EVENT_EXEC) {
		int is_first = t == *command;

		*command = 0;
		if (prepare(t, is_first)) {
			ptrace(PTRACE_DETACH, t, 0L, 0L);
			_exit(0);
		}
	} else if (event == PTRACE_EVENT_STOP && sig != SIGTRAP) {	/* SIGSTOP and the like */
		ptrace(PTRACE_LISTEN, t, 0L, 0L);
		return;
	} else if (!event && !(sig == SIGSEGV && redirect(t))) {
		deliver = sig;
	}
	ptrace(PTRACE_CONT, t, 0L, (long)deliver);
}

struct stop {
	pid_t t;
	int status;
};

/* A task that stopped may be killed and report again, and another thread that executes a program takes the first
 * one's ID: the last report counts. */
static int is_outdated(const struct stop *s, const struct stop *end)
{
	for (const struct stop *later = s + 1; later < end; later++)
		if (later->t == s->t)
			return 1;
	return 0;
}

/* The kernel reports the newest task first: all that have stopped get a turn before any gets another. */
_Noreturn void follow(pid_t command)
{
	static struct stop stop[TURNS];

	for (;;) {
		int n = 0;

		while (n < TURNS && (stop[n].t = waitpid(-1, &stop[n].status, __WALL | (n ? WNOHANG : 0))) > 0)
			n++;
		if (!n && errno != EINTR)
			_exit(0);
		for (int i = 0; i < n; i++)
			if (!is_outdated(stop + i, stop + n))
				handle(stop[i].t, stop[i].status, &command);
	}
}
