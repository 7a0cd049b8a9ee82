/* vfix-trace: the command line, and whether tracing is necessary. See trace.h. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include "trace.h"

/* Calls the page in a child. A kernel that does not serve it logs that, once. */
static int page_is_served(void)
{
	struct sigaction on_child;
	int status = 1;
	/* The complement, so that vfix does not report a call to patch here. */
	volatile uintptr_t entry = ~vfix_entry_of(VFIX_TIME);

	/* If SIGCHLD is ignored, the child's status is not kept. */
	sigaction(SIGCHLD, &(struct sigaction){ .sa_handler = SIG_DFL }, &on_child);
	pid_t child = fork();
	if (child == 0) {
		no_core();
		signal(SIGSEGV, SIG_DFL);
		((long (*)(long *))~entry)(NULL);
		_exit(0);
	}
	int served = child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status);
	sigaction(SIGCHLD, &on_child, NULL);
	return served;
}

static _Noreturn void bad_usage(const char *what, const char *argument)
{
	error("%s%s", what, argument);
	hint("vfix-trace --help has more");
	exit(STATUS_USAGE);
}

/* Returns the index of the command, and sets *always. */
static int parse(int argc, char **argv, int *always)
{
	int i;

	for (i = 1; i < argc && argv[i][0] == '-'; i++) {
		if (!strcmp(argv[i], "--"))
			return i + 1;
		if (!strcmp(argv[i], "--always")) {
			*always = 1;
		} else if (!strcmp(argv[i], "--help")) {
			fputs(help_text, stdout);
			exit(fflush(stdout) ? 1 : 0);
		} else {
			bad_usage("unknown option ", argv[i]);
		}
	}
	return i;
}

int main(int argc, char **argv)
{
	int always = 0;
	int first = parse(argc, argv, &always);
	const char *heal_setting = getenv("VFIX_HEAL"), *log_setting = getenv("VFIX_LOG");

	if (first >= argc)
		bad_usage("no command was given", "");
	heal_enabled = !heal_setting || strcmp(heal_setting, "0");
	log_fd = log_setting && !strcmp(log_setting, "1") ? STDERR_FILENO : -1;
	if (!always && page_is_served())
		execute(argv + first);
	supervise(argv + first);
}
