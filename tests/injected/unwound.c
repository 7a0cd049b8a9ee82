/*
 * Calls the sites of unwound.S, and is unwound meanwhile.
 *
 *	unwound once		each site once, for a debugger
 *	unwound loop SECONDS	all of them, again and again, for so many seconds of the processor, for a profiler
 *	unwound samples N	takes N samples with backtrace() and prints how many were in the kernel's
 *				or the injected code, and how many of all reached main
 *	unwound cancel		cancels a thread in the middle of calls, and expects its clean-up
 */
#define _GNU_SOURCE
#include <execinfo.h>
#include <link.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
#include <ucontext.h>

int gettimeofday_plain(struct timeval *, void *), gettimeofday_kept(struct timeval *, void *);
long time_plain(long *), time_kept(long *);
int getcpu_plain(unsigned *, unsigned *), getcpu_kept(unsigned *, unsigned *);

static __attribute__((noinline)) void middle(void)
{
	struct timeval tv;
	long t;
	unsigned cpu, node;

	gettimeofday_plain(&tv, NULL);
	gettimeofday_kept(&tv, NULL);
	time_plain(&t);
	time_kept(&t);
	getcpu_plain(&cpu, &node);
	getcpu_kept(&cpu, &node);
	__asm__ volatile("");
}

static volatile int wanted, outside, complete, taken;
static uintptr_t own_start, own_end, bottom;

/* The text of the program itself: a sample in it, or in the sites, is not of interest. */
static int find_own(struct dl_phdr_info *info, size_t size, void *unused)
{
	(void)size, (void)unused;
	for (int i = 0; i < info->dlpi_phnum; i++)
		if (info->dlpi_phdr[i].p_type == PT_LOAD && info->dlpi_phdr[i].p_flags & PF_X) {
			own_start = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
			own_end = own_start + info->dlpi_phdr[i].p_memsz;
		}
	return 1;
}

static void sample(int number, siginfo_t *info, void *context)
{
	void *frames[64];
	uintptr_t pc = ((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];
	uintptr_t sites = (uintptr_t)gettimeofday_plain & ~4095UL;

	(void)number, (void)info;
	if (taken >= wanted || (pc >= own_start && pc < own_end) || (pc >= sites && pc < sites + 4096))
		return;
	taken++;
	int n = backtrace(frames, 64), found = 0;
	for (int i = 0; i < n; i++)
		found |= (uintptr_t)frames[i] == bottom;
	complete += found;
	outside++;
}

static __attribute__((noinline)) void calls(int seconds)
{
	clock_t end = clock() + seconds * CLOCKS_PER_SEC;

	bottom = (uintptr_t)__builtin_return_address(0);
	while (wanted ? taken < wanted : clock() < end)
		for (int i = 0; i < 1000; i++)
			middle();
}

static volatile int ready, cleaned;
static void clean(void *unused) { (void)unused; cleaned = 1; }

static void *thread(void *unused)
{
	pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
	pthread_cleanup_push(clean, NULL);
	for (ready = 1;;)
		middle();
	pthread_cleanup_pop(0);
	return unused;
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";
	int number = argc > 2 ? atoi(argv[2]) : 0;

	if (!strcmp(what, "once")) {
		middle();
	} else if (!strcmp(what, "loop")) {
		calls(number);
	} else if (!strcmp(what, "samples")) {
		struct sigaction action = { .sa_sigaction = sample, .sa_flags = SA_SIGINFO | SA_RESTART };
		struct itimerval often = { { 0, 1000 }, { 0, 1000 } };
		void *frame;

		backtrace(&frame, 1); /* loads libgcc */
		dl_iterate_phdr(find_own, NULL);
		wanted = number;
		sigaction(SIGPROF, &action, NULL);
		setitimer(ITIMER_PROF, &often, NULL);
		calls(0);
		printf("%d samples, %d complete\n", outside, complete);
		return complete != wanted;
	} else if (!strcmp(what, "cancel")) {
		for (int i = 0; i < 200; i++) {
			pthread_t t;

			ready = cleaned = 0;
			if (pthread_create(&t, NULL, thread, NULL))
				return 2;
			while (!ready)
				sched_yield();
			struct timespec moment = { 0, 1000 * (i % 50) };
			nanosleep(&moment, NULL);
			pthread_cancel(t);
			pthread_join(t, NULL);
			if (!cleaned)
				return 3;
		}
	} else {
		return 2;
	}
	return 0;
}
