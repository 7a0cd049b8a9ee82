/* Look-ups of missing names: their duration. Each missing name leaves a negative dentry in the cache that all
 * share. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include "measure.h"

enum { NAMES_MOST = 10 * 1000 * 1000, ROUNDS_MOST = 100 * 1000, BATCH = 64, NAME_SIZE = 32 };

static void enter(const char *dir)
{
	if (!dir || chdir(dir) != 0)
		die("directory ", dir ? dir : "");
}

/* Looks up one name that must not exist. */
static void miss(long i)
{
	char name[NAME_SIZE];
	struct stat st;

	snprintf(name, sizeof name, "missing-%ld", i);
	if (stat(name, &st) == 0 || errno != ENOENT)
		die("missing name ", name);
}

/*
 * lookup DIR NAMES ROUNDS: looks up NAMES missing names in DIR, first when they are new to the cache, then
 * again in each round. Prints "new NANOSECONDS" and "known NANOSECONDS", the average of one look-up in a
 * batch of BATCH, for each batch.
 */
int lookup(char **words)
{
	if (!words[0] || !words[1] || !words[2])
		bad_usage("lookup needs DIR, NAMES and ROUNDS", "");
	long names = number(words[1], BATCH, NAMES_MOST), rounds = number(words[2], 1, ROUNDS_MOST);

	enter(words[0]);
	for (long round = 0; round <= rounds; round++)
		for (long i = 0; i + BATCH <= names; i += BATCH) {
			double start = now_ns();

			for (long j = i; j < i + BATCH; j++)
				miss(j);
			printf("%s %.1f\n", round ? "known" : "new", (now_ns() - start) / BATCH);
		}
	return 0;
}
