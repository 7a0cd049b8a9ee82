/* The error messages of vfix-measure for wrong usage, and its parser of numbers. See measure.h. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "measure.h"

static const char usage[] =
	"usage: vfix-measure [--filter] VERB\n"
	"  probe SUBJECT                      one call, and its answer\n"
	"  peek                               read a byte of the vsyscall page\n"
	"  entries SUBJECT...                 how many calls enter the kernel\n"
	"  time ROUNDS MICROSECONDS SUBJECT...  nanoseconds a call, once a round\n"
	"  lookup DIR NAMES ROUNDS            nanoseconds of looking a missing name up\n"
	"A SUBJECT is page:, syscall: or vdso: and gettimeofday, time, getcpu, realtime,\n"
	"monotonic, realtime_coarse or monotonic_coarse.\n"
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
