/*
 * fallback WAY: how long a call of each function takes at a site of the twin of the vsyscall
 * page (PAGE), with the preload library that LD_PRELOAD names.
 *
 *	vdso      the vDSO's function, through a pointer: what the others are held against
 *	name      by name, through the PLT: the library's own functions
 *	site      at a call site; healed, or not with VFIX_HEAL=0
 *	first     the first call of each of many sites, which heals it
 *	start     nothing: how long the process lives is what is measured
 *
 * Prints "FUNCTION WAY NANOSECONDS" a line.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sched.h>
#include <stdint.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/time.h>

#include "sample.h"

#define FIRST 500 /* sites whose first call is measured */
#define STRIDE 64

typedef long call(void *, void *);

/* stubs of old glibcs: shim/src/linked/stubs.S */
extern call site_time, site_gettimeofday, site_sched_getcpu;
extern const char site_time_end[], site_gettimeofday_end[], site_sched_getcpu_end[];

/* Arguments that each function takes: memory for a result, and nothing. */
static union { struct timeval tv; unsigned cpu; } result;

/* The called function, through a pointer that the compiler does not see through. */
static call *volatile pointer;
static void *argument;

static double loop(long n)
{
	void *out = argument;
	double start = now_ns();

	for (long i = 0; i < n; i++)
		pointer(out, 0);
	return now_ns() - start;
}

static void report_calls(const char *function, const char *way, call *f, void *out)
{
	pointer = f;
	argument = out;
	report(function, way, loop, 100);
}

/* Copies of the site, each called once. */
static void report_first(const char *function, const char *way, call *f, const char *end, void *out)
{
	char *code = mmap(0, FIRST * STRIDE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	for (int i = 0; i < FIRST; i++)
		memcpy(code + i * STRIDE, (const void *)f, end - (const char *)f);
	mprotect(code, FIRST * STRIDE, PROT_READ | PROT_EXEC);
	double start = now_ns();
	for (int i = 0; i < FIRST; i++)
		((call *)(code + i * STRIDE))(out, 0);
	printf("%s %s %.4f\n", function, way, (now_ns() - start) / FIRST);
	munmap(code, FIRST * STRIDE);
}

int main(int argc, char **argv)
{
	const char *way = argc > 1 ? argv[1] : "vdso", *kind = argc > 2 ? argv[2] : way;
	void *vdso = dlopen("linux-vdso.so.1", RTLD_LAZY | RTLD_NOLOAD);

	if (strcmp(kind, "start") == 0)
		return 0;
	if (strcmp(kind, "vdso") == 0) {
		report_calls("time", way, (call *)dlsym(vdso, "__vdso_time"), 0);
		report_calls("gettimeofday", way, (call *)dlsym(vdso, "__vdso_gettimeofday"), &result);
		report_calls("getcpu", way, (call *)dlsym(vdso, "__vdso_getcpu"), &result);
	} else if (strcmp(kind, "name") == 0) {
		report_calls("time", way, (call *)(void *)time, 0);
		report_calls("gettimeofday", way, (call *)(void *)gettimeofday, &result);
		report_calls("getcpu", way, (call *)(void *)sched_getcpu, 0);
	} else if (strcmp(kind, "site") == 0) {
		report_calls("time", way, site_time, 0);
		report_calls("gettimeofday", way, site_gettimeofday, &result);
		report_calls("getcpu", way, site_sched_getcpu, &result);
	} else {
		report_first("time", way, site_time, site_time_end, 0);
		report_first("gettimeofday", way, site_gettimeofday, site_gettimeofday_end, &result);
		report_first("getcpu", way, site_sched_getcpu, site_sched_getcpu_end, &result);
	}
	return 0;
}
