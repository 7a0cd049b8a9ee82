/*
 * vfix-measure-libc: the cost of time, gettimeofday and sched_getcpu for a program that is linked with a
 * libc, and calls them through its PLT. ld.so selects the functions: those of its libc, or of a library in
 * LD_PRELOAD.
 *
 * usage: vfix-measure-libc MICROSECONDS
 *
 * Measures each function once, for about that long, and prints "FUNCTION NANOSECONDS" for
 * each, or "FUNCTION absent": glibc has sched_getcpu from 2.6 on.
 *
 * It has no start-up code of a libc and no symbol versions, so that any ld.so since glibc 2.3 loads it.
 * Exit status: 0, 2 usage.
 */
#include <stddef.h>

#include "../syscall.h"

#define CLOCK_MONOTONIC		1
#define SECOND			1000000000ul /* nanoseconds */

extern long time(long *) __attribute__((weak));
extern int gettimeofday(void *, void *) __attribute__((weak));
extern int sched_getcpu(void) __attribute__((weak));

static long out[2]; /* a struct timeval */

static unsigned long now_ns(void)
{
	unsigned long t[2];

	syscall3(SYS_clock_gettime, CLOCK_MONOTONIC, (long)t, 0);
	return t[0] * SECOND + t[1];
}

/* Defines loop_NAME, the nanoseconds of n calls. */
#define LOOP(name, call)				\
static unsigned long loop_##name(unsigned long n)	\
{							\
	unsigned long start = now_ns();			\
							\
	for (unsigned long i = 0; i < n; i++)		\
		call;					\
	return now_ns() - start;			\
}

LOOP(time, time(NULL))
LOOP(gettimeofday, gettimeofday(out, NULL))
LOOP(sched_getcpu, sched_getcpu())

static void say(const char *text)
{
	size_t n = 0;

	while (text[n])
		n++;
	syscall3(SYS_write, 1, (long)text, (long)n);
}

static void say_number(unsigned long n)
{
	char digits[24], *p = digits + sizeof digits;

	*--p = 0;
	do
		*--p = (char)('0' + n % 10);
	while (n /= 10);
	say(p);
}

static void measure(const char *name, int there, unsigned long (*loop)(unsigned long), unsigned long sample)
{
	unsigned long n = 16, ns;

	say(name);
	if (!there) {
		say(" absent\n");
		return;
	}
	while ((ns = loop(n)) < sample / 8)
		n *= 4;
	n = n * sample / ns + 1;
	say(" ");
	say_number(loop(n) * 1000 / n);
	say("e-3\n");
}

/* stack is the stack from the kernel or ld.so: argc, argv. */
__attribute__((used)) _Noreturn void begin(const unsigned long *stack)
{
	const char *word = stack[0] == 2 ? (const char *)stack[2] : "";
	unsigned long us = 0, status = 2;

	for (; *word >= '0' && *word <= '9' && us < SECOND; word++)
		us = us * 10 + (unsigned long)(*word - '0');
	if (us && !*word) {
		measure("time", !!time, loop_time, us * 1000);
		measure("gettimeofday", !!gettimeofday, loop_gettimeofday, us * 1000);
		measure("getcpu", !!sched_getcpu, loop_sched_getcpu, us * 1000);
		status = 0;
	}
	for (;;)
		syscall3(SYS_exit_group, (long)status, 0, 0);
}

__asm__(".globl _start\n"
	".type _start, @function\n"
	"_start:\n"
	"	xor %ebp, %ebp\n"
	"	mov %rsp, %rdi\n"
	"	and $-16, %rsp\n"
	"	call begin\n");
