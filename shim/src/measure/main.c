/* vfix-measure: the selection of the verb, errors and numbers. See measure.h. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include "measure.h"

_Noreturn void die(const char *what, const char *object)
{
	fprintf(stderr, "vfix-measure: error: %s%s: %s\n", what, object, strerror(errno));
	exit(STATUS_ERROR);
}

_Noreturn void bad_usage(const char *what, const char *word)
{
	fprintf(stderr, "vfix-measure: error: %s%s\n"
		"usage: vfix-measure [--filter] probe SUBJECT | peek | entries SUBJECT... | time ROUNDS MICROSECONDS SUBJECT...\n",
		what, word);
	exit(STATUS_USAGE);
}

long number(const char *word, long least, long most)
{
	char *end;

	errno = 0;
	long n = strtol(word, &end, 10);
	if (*end || end == word || errno || n < least || n > most)
		bad_usage("no number, or too small or large: ", word);
	return n;
}

int main(int argc, char **argv)
{
	static const struct { const char *name; int needs; int (*run)(char **); } verbs[] = {
		{ "probe", 1, probe }, { "peek", 0, peek }, { "entries", 1, entries }, { "time", 3, measure_time },
	};

	setrlimit(RLIMIT_CORE, &(struct rlimit){ 0, 0 });
	prctl(PR_SET_DUMPABLE, 0);	/* so that no crash handler of the host reports a probe */
	prctl(PR_SET_NAME, "vfix-measure");	/* for the kernel's log of calls of the page */
	signal(SIGSEGV, SIG_DFL);	/* an ignored one would be inherited */
	signal(SIGSYS, SIG_DFL);
	argv++, argc--;
	if (argc > 0 && !strcmp(*argv, "--filter")) {
		install_filter();
		argv++, argc--;
	}
	for (size_t i = 0; argc > 0 && i < sizeof verbs / sizeof *verbs; i++)
		if (!strcmp(*argv, verbs[i].name)) {
			if (argc - 1 < verbs[i].needs)
				bad_usage("too few words for ", *argv);
			int status = verbs[i].run(argv + 1);
			return fflush(stdout) ? STATUS_ERROR : status;
		}
	bad_usage(argc > 0 ? "no such verb: " : "no verb", argc > 0 ? *argv : "");
}
