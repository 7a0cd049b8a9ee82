/* The ways to each function. See measure.h. */
#include <stdint.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include "measure.h"
#include "vdso.h"

/* uapi/asm/vsyscall.h. Kept as complements, so that vfix does not report this program as one that calls the
 * page. */
static const volatile uintptr_t page_not = ~0xffffffffff600000ul;
enum { SLOT_SIZE = 1024 };

const char *const way_names[WAYS] = { "page", "syscall", "vdso" };

static const struct function functions[] = {
	{ "gettimeofday", "__vdso_gettimeofday", SYS_gettimeofday, 0, -1 },
	{ "time", "__vdso_time", SYS_time, 1, -1 },
	{ "getcpu", "__vdso_getcpu", SYS_getcpu, 2, -1 },
	{ "realtime", "__vdso_clock_gettime", SYS_clock_gettime, -1, CLOCK_REALTIME },
	{ "monotonic", "__vdso_clock_gettime", SYS_clock_gettime, -1, CLOCK_MONOTONIC },
	{ "realtime_coarse", "__vdso_clock_gettime", SYS_clock_gettime, -1, CLOCK_REALTIME_COARSE },
	{ "monotonic_coarse", "__vdso_clock_gettime", SYS_clock_gettime, -1, CLOCK_MONOTONIC_COARSE },
};

/* Defines a function that makes one system call, as in a program without a vDSO. */
#define SYSCALL_STUB(name)						\
static long syscall_##name(long a, long b, long c)			\
{									\
	long ret;							\
	__asm__ volatile ("syscall" : "=a"(ret)				\
			  : "a"(SYS_##name), "D"(a), "S"(b), "d"(c)	\
			  : "rcx", "r11", "memory");			\
	return ret;							\
}

SYSCALL_STUB(gettimeofday)
SYSCALL_STUB(time)
SYSCALL_STUB(getcpu)
SYSCALL_STUB(clock_gettime)

static call_fn *syscall_of(int number)
{
	switch (number) {
	case SYS_gettimeofday: return syscall_gettimeofday;
	case SYS_time: return syscall_time;
	case SYS_getcpu: return syscall_getcpu;
	}
	return syscall_clock_gettime;
}

struct subject find_subject(const char *text)
{
	struct subject s = { .text = text };
	const char *colon = strchr(text, ':');
	size_t length = colon ? (size_t)(colon - text) : 0;
	uintptr_t vdso = getauxval(AT_SYSINFO_EHDR);

	while (s.way < WAYS && !(strlen(way_names[s.way]) == length && !memcmp(way_names[s.way], text, length)))
		s.way++;
	if (s.way == WAYS)
		bad_usage("want page:, syscall: or vdso: and a function, not ", text);
	for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
		if (!strcmp(functions[i].name, colon + 1))
			s.function = &functions[i];
	if (!s.function)
		bad_usage("no such function: ", text);
	if (s.way == WAY_VDSO)
		s.call = vdso ? (call_fn *)vfix_vdso_symbol(vdso, s.function->symbol) : NULL;
	else if (s.way == WAY_SYSCALL)
		s.call = syscall_of(s.function->number);
	else if (s.function->slot >= 0)
		s.call = (call_fn *)(~page_not + (uintptr_t)s.function->slot * SLOT_SIZE);
	return s;
}

/* The arguments of a call, with memory for its results. Only time() gets no pointer to memory. */
static union { struct timeval tv; struct timespec ts; unsigned cpu; } answer;

static void arguments(const struct function *f, long *a, long *b)
{
	*a = f->number == SYS_time ? 0 : (long)&answer;
	*b = 0;
	if (f->clock >= 0) {
		*a = f->clock;
		*b = (long)&answer;
	}
}

long call_once(const struct subject *s)
{
	long a, b;

	arguments(s->function, &a, &b);
	return s->call(a, b, 0);
}

double now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

double call_many(const struct subject *s, long n)
{
	call_fn *volatile call = s->call; /* volatile: called through memory, as a PLT does */
	long a, b;

	arguments(s->function, &a, &b);
	double start = now_ns();
	for (long i = 0; i < n; i++)
		call(a, b, 0);
	return now_ns() - start;
}
