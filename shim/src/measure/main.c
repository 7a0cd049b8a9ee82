/* vfix-measure: the selection of the verb. See measure.h. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include "measure.h"

int main(int argc, char **argv)
{
	static const struct { const char *name; int needs; int (*run)(char **); } verbs[] = {
		{ "probe", 1, probe }, { "peek", 0, peek }, { "entries", 1, entries }, { "time", 3, measure_time },
	};
	const struct rlimit none = { 0, 0 };

	setrlimit(RLIMIT_CORE, &none);
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
