/* Ends this process in the same way as another one. */
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include "trace.h"

/* The command has dumped its core; the core of this process would be useless. The limit does not apply to a
 * core that is piped to a program, hence prctl. */
void no_core(void)
{
	setrlimit(RLIMIT_CORE, &(struct rlimit){ 0, 0 });
	prctl(PR_SET_DUMPABLE, 0);
}

_Noreturn void end_as(int status)
{
	sigset_t one;

	if (WIFEXITED(status))
		_exit(WEXITSTATUS(status));
	no_core();
	signal(WTERMSIG(status), SIG_DFL);
	sigemptyset(&one);
	sigaddset(&one, WTERMSIG(status));
	kill(getpid(), WTERMSIG(status));
	sigprocmask(SIG_UNBLOCK, &one, NULL);
	_exit(128 + WTERMSIG(status)); /* process 1 does not die from its own signals */
}
