/*
 * calls NAME [syscall]: how long a call of time, gettimeofday and sched_getcpu takes, as a
 * program that is linked with a library reaches them: through its PLT. Whose functions they
 * are, LD_PRELOAD decides. With "syscall", the plain system calls instead.
 * Prints "FUNCTION NAME NANOSECONDS" a line.
 */
#define _GNU_SOURCE
#include <sched.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include "sample.h"

/* Defines NAME_ns, the nanoseconds of n calls. */
#define LOOP(name, call)			\
static double name##_ns(long n)			\
{						\
	struct timeval tv;			\
	unsigned cpu;				\
	double start = now_ns();		\
						\
	for (long i = 0; i < n; i++)		\
		call;				\
	(void)tv, (void)cpu;			\
	return now_ns() - start;		\
}

LOOP(time, time(0))
LOOP(gettimeofday, gettimeofday(&tv, 0))
LOOP(sched_getcpu, sched_getcpu())
LOOP(syscall_time, syscall(SYS_time, 0))
LOOP(syscall_gettimeofday, syscall(SYS_gettimeofday, &tv, 0))
LOOP(syscall_getcpu, syscall(SYS_getcpu, &cpu, 0, 0))

int main(int argc, char **argv)
{
	int plain = argc == 3 && !strcmp(argv[2], "syscall");

	if (argc < 2 || argc > 3 || (argc == 3 && !plain)) {
		fprintf(stderr, "usage: calls NAME [syscall]\n");
		return 2;
	}
	report("time", argv[1], plain ? syscall_time_ns : time_ns, 1000);
	report("gettimeofday", argv[1], plain ? syscall_gettimeofday_ns : gettimeofday_ns, 1000);
	report("getcpu", argv[1], plain ? syscall_getcpu_ns : sched_getcpu_ns, 1000);
	return 0;
}
