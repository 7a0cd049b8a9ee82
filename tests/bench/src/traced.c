/*
 * traced NAME: how long calls of the vsyscall page's twin take under vfix-trace, each site
 * mov and call as old compilers made it. Prints "FUNCTION NAME NANOSECONDS" a line: the first
 * call of the program (NAME-first), the first of its next site, which that healed too (NAME-next),
 * then many calls of one (NAME), beside the C library's own function over the vDSO (vdso).
 */
#include <string.h>
#include <sys/time.h>

#include "sample.h"

#define TWIN 0xffffffffff5ff000

#define TEXT(x) #x
#define STRING(x) TEXT(x)
#define CALL(offset, pointer)						\
do {									\
	long result_;							\
	__asm__ volatile ("mov $" STRING(TWIN) "+" offset ", %%rax\n\t"	\
			  "call *%%rax"					\
			  : "=a"(result_)				\
			  : "D"(pointer), "S"(0L)			\
			  : "rcx", "r11", "memory");			\
} while (0)

/* Defines NAME_ns, the nanoseconds of n calls. */
#define LOOP(name, call)						\
static double name##_ns(long n)						\
{									\
	struct timeval tv;						\
	double start = now_ns();					\
									\
	for (long i = 0; i < n; i++)					\
		call;							\
	(void)tv;							\
	return now_ns() - start;					\
}

LOOP(vdso_time, __asm__ volatile ("" : : "r"(time(0))))
LOOP(vdso_gettimeofday, gettimeofday(&tv, 0))
LOOP(page_time, CALL("0x400", 0L))
LOOP(page_gettimeofday, CALL("0x000", &tv))

int main(int argc, char **argv)
{
	if (argc != 2) {
		fprintf(stderr, "usage: traced NAME\n");
		return 2;
	}
	printf("time %s-first %.0f\n", argv[1], page_time_ns(1));
	printf("gettimeofday %s-next %.0f\n", argv[1], page_gettimeofday_ns(1));
	report("time", "vdso", vdso_time_ns, 16);
	report("gettimeofday", "vdso", vdso_gettimeofday_ns, 16);
	report("time", argv[1], page_time_ns, 16);
	report("gettimeofday", argv[1], page_gettimeofday_ns, 16);
	return 0;
}
