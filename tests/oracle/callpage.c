/* callpage: calls one function of the vsyscall page, the positive control of every test
 * that something does not.
 *
 * usage: callpage time|gettimeofday|getcpu|none
 *
 * Exit status 0 where the kernel serves the page and the answer is plausible. */
#include <stdio.h>
#include <string.h>
#include <sys/time.h>

#define PAGE 0xffffffffff600000ul
#define YEAR_2020 1577836800l

int main(int argc, char **argv)
{
	const char *name = argc == 2 ? argv[1] : "";
	struct timeval now = {0, 0};
	unsigned cpu = ~0u;

	if (strcmp(name, "time") == 0)
		return ((long (*)(long *))(PAGE + 0x400))(NULL) < YEAR_2020;
	if (strcmp(name, "gettimeofday") == 0)
		return ((long (*)(struct timeval *, void *))PAGE)(&now, NULL) != 0 || now.tv_sec < YEAR_2020;
	if (strcmp(name, "getcpu") == 0)
		return ((long (*)(unsigned *, unsigned *, void *))(PAGE + 0x800))(&cpu, NULL, NULL) != 0 || cpu == ~0u;
	if (strcmp(name, "none") == 0)
		return 0;
	fprintf(stderr, "usage: callpage time|gettimeofday|getcpu|none\n");
	return 2;
}
