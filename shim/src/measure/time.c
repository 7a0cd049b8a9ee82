/* The duration of a call. The subjects alternate, so that a disturbance affects all equally. */
#include <stdio.h>
#include <stdlib.h>
#include "measure.h"

enum { SUBJECTS_MOST = 64, ROUNDS_MOST = 1000, SAMPLE_MOST = 1000 };

/* Returns the number of calls of s in about the duration of a sample. */
static long calibrate(const struct subject *s, double sample_ns)
{
	long n = 16;
	double ns;

	while ((ns = call_many(s, n)) < sample_ns / 8)
		n *= 4;
	return (long)((double)n * sample_ns / ns) + 1;
}

/*
 * time ROUNDS MICROSECONDS SUBJECT...: measures each subject once per round, for about that duration, and
 * prints "SUBJECT NANOSECONDS" for each, or "SUBJECT absent".
 */
int measure_time(char **words)
{
	static struct subject subjects[SUBJECTS_MOST];
	static long calls[SUBJECTS_MOST];
	long rounds = number(words[0], 1, ROUNDS_MOST), n = 0;
	double sample_ns = (double)number(words[1], 1, SAMPLE_MOST * 1000) * 1e3;

	for (words += 2; *words; words++) {
		if (n == SUBJECTS_MOST)
			bad_usage("too many subjects", "");
		subjects[n] = find_subject(*words);
		if (!subjects[n].call) {
			printf("%s absent\n", *words);
			continue;
		}
		calls[n] = calibrate(&subjects[n], sample_ns);
		n++;
	}
	for (long round = 0; round < rounds; round++)
		for (long i = 0; i < n; i++)
			printf("%s %.4f\n", subjects[i].text, call_many(&subjects[i], calls[i]) / (double)calls[i]);
	return 0;
}
