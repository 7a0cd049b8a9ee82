/* The error messages of vfix-measure for wrong usage, and its parser of numbers. See measure.h. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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
