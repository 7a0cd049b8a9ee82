/* How the programs of the benchmark take a sample of a call. */
#include <stdio.h>
#include <time.h>

static const double sample_ns = 20e6; /* the length of one measurement */

static double now_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1e9 + t.tv_nsec;
}

/* Prints "FUNCTION NAME NANOSECONDS", of as many calls as a sample holds; loop makes n of them
 * and returns their nanoseconds. first is how many it tries at first. */
static void report(const char *function, const char *name, double (*loop)(long), long first)
{
	long n = first;
	double ns;

	while ((ns = loop(n)) < sample_ns / 10)
		n *= 4;
	n = (long)(n * sample_ns / ns) + 1;
	printf("%s %s %.4f\n", function, name, loop(n) / n);
}
