/* vfix-measure: which verb is asked for. See measure.h. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include "measure.h"

static const char usage[] =
	"usage: vfix-measure [--filter] VERB\n"
	"  probe SUBJECT                      one call, and its answer\n"
	"  peek                               read a byte of the vsyscall page\n"
	"  entries SUBJECT...                 how many calls enter the kernel\n"
	"  time ROUNDS MICROSECONDS SUBJECT...  nanoseconds a call, once a round\n"
	"  lookup DIR NAMES ROUNDS            nanoseconds of looking a missing name up\n"
	"  flood DIR NAMES                    look missing names up until stdin ends\n"
	"  vdso                               write the vDSO's image to stdout\n"
	"A SUBJECT is page:, syscall: or vdso: and gettimeofday, time, getcpu, realtime,\n"
	"monotonic, monotonic_raw, boottime, tai, realtime_coarse or monotonic_coarse.\n"
	"--filter sets the seccomp filter that stdin holds first.\n"
	"Exit status: 0, 1 error, 2 usage, 4 there is no such way here.\n";

_Noreturn void die(const char *what, const char *object)
{
	fprintf(stderr, "vfix-measure: error: %s%s: %s\n", what, object, strerror(errno));
	exit(STATUS_ERROR);
}

_Noreturn void bad_usage(const char *what, const char *word)
{
	fprintf(stderr, "vfix-measure: error: %s%s\n%s", what, word, usage);
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

static int vdso(char **words)
{
	(void)words;
	return dump_vdso();
}

int main(int argc, char **argv)
{
	static const struct { const char *name; int needs; int (*run)(char **); } verbs[] = {
		{ "probe", 1, probe }, { "peek", 0, peek }, { "entries", 1, entries },
		{ "time", 3, measure_time }, { "lookup", 3, lookup }, { "flood", 2, flood }, { "vdso", 0, vdso },
	};
	const struct rlimit none = { 0, 0 };

	setrlimit(RLIMIT_CORE, &none);
	prctl(PR_SET_DUMPABLE, 0);	/* no crash handler of the host takes a probe for a crash */
	prctl(PR_SET_NAME, "vfix-measure");	/* the kernel's log then names who called the page */
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
