/*
 * Masks that a libc sets itself: those of contexts, of threads' attributes, and of the threads that run
 * timers.
 */
#include <pthread.h>
#include <time.h>
#include <ucontext.h>
#include "mask.h"

/* A saved mask already has the stand-in; one from the program has SIGSEGV. */
static void move(sigset_t *set)
{
	uint64_t *mask = (uint64_t *)set;

	if (*mask & BIT(SIGSEGV))
		*mask = mask_in(*mask);
}

VFIX_PUBLIC int setcontext(const ucontext_t *context)
{
	move((sigset_t *)&context->uc_sigmask);
	return NEXT(setcontext)(context);
}

VFIX_PUBLIC int swapcontext(ucontext_t *restrict old, const ucontext_t *restrict context)
{
	move((sigset_t *)&context->uc_sigmask);
	return NEXT(swapcontext)(old, context);
}

int pthread_attr_setsigmask_np(pthread_attr_t *, const sigset_t *);
int pthread_attr_getsigmask_np(const pthread_attr_t *, sigset_t *);

VFIX_PUBLIC int pthread_attr_setsigmask_np(pthread_attr_t *attributes, const sigset_t *set)
{
	return NEXT(pthread_attr_setsigmask_np)(attributes, set_of(set, set ? mask_in(bits_of(set)) : 0, &(sigset_t){ 0 }));
}

VFIX_PUBLIC int pthread_attr_getsigmask_np(const pthread_attr_t *attributes, sigset_t *set)
{
	int ret = NEXT(pthread_attr_getsigmask_np)(attributes, set);

	if (ret == 0)
		set_out(set);
	return ret;
}

/* Timers call this in a thread of the libc, which has all signals blocked. Entries are permanent, as a
 * timer may expire after it was deleted. */
#define TIMERS 1024
static struct callback { void (*function)(union sigval); union sigval value; } callbacks[TIMERS];
static int callback_count;

static void call_back(union sigval value)
{
	const struct callback *c = value.sival_ptr;
	uint64_t segv = BIT(SIGSEGV), stand_in = BIT(VFIX_STAND_IN), old;

	syscall4(SYS_rt_sigprocmask, SIG_UNBLOCK, (long)&segv, (long)&old, sizeof segv);
	if (old & segv)
		syscall4(SYS_rt_sigprocmask, SIG_BLOCK, (long)&stand_in, 0, sizeof segv);
	c->function(c->value);
}

/* NULL if the table is full. */
static struct callback *keep(void (*function)(union sigval), union sigval value)
{
	int n = __atomic_load_n(&callback_count, __ATOMIC_ACQUIRE);

	for (int i = 0; i < n && i < TIMERS; i++)
		if (callbacks[i].function == function && callbacks[i].value.sival_ptr == value.sival_ptr)
			return &callbacks[i];
	n = __atomic_fetch_add(&callback_count, 1, __ATOMIC_ACQ_REL);
	if (n >= TIMERS) {
		__atomic_store_n(&callback_count, TIMERS, __ATOMIC_RELEASE);
		return 0;
	}
	callbacks[n].value = value;
	callbacks[n].function = function;
	return &callbacks[n];
}

VFIX_PUBLIC int timer_create(clockid_t clock, struct sigevent *restrict event, timer_t *restrict timer)
{
	struct sigevent own;
	struct callback *c = 0;

	if (event && event->sigev_notify == SIGEV_THREAD)
		c = keep(event->sigev_notify_function, event->sigev_value);
	if (c) {
		own.sigev_notify = SIGEV_THREAD;
		own.sigev_signo = event->sigev_signo;
		own.sigev_notify_attributes = event->sigev_notify_attributes;
		own.sigev_notify_function = call_back;
		own.sigev_value.sival_ptr = c;
	}
	return NEXT(timer_create)(clock, c ? &own : event, timer);
}
