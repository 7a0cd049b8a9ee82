/*
 * Functions that set, read or wait with a mask: SIGSEGV becomes its stand-in on the way in, and SIGSEGV
 * again on the way out. They call the libc's own functions, which are cancellation points.
 */
#include <errno.h>
#include "mask.h"

static const sigset_t *change(int how, const sigset_t *set, sigset_t *scratch)
{
	if (!set)
		return 0;
	return set_of(set, how == SIG_UNBLOCK ? mask_unblock(bits_of(set)) : mask_in(bits_of(set)), scratch);
}

VFIX_PUBLIC int sigprocmask(int how, const sigset_t *restrict set, sigset_t *restrict old)
{
	sigset_t scratch;
	int ret = NEXT(sigprocmask)(how, change(how, set, &scratch), old);

	if (ret == 0)
		set_out(old);
	return ret;
}

/* Before glibc 2.32 it is in libpthread, which may not be loaded; a program may check for it with a weak
 * reference, and finds this one. */
VFIX_PUBLIC int pthread_sigmask(int how, const sigset_t *restrict set, sigset_t *restrict old)
{
	__typeof__(&pthread_sigmask) next = NEXT(pthread_sigmask);
	sigset_t scratch;
	int ret;

	set = change(how, set, &scratch);
	if ((void *)next == (void *)vfix_none)
		ret = -syscall4(SYS_rt_sigprocmask, how, (long)set, (long)old, sizeof(uint64_t));
	else
		ret = next(how, set, old);
	if (ret == 0)
		set_out(old);
	return ret;
}

VFIX_PUBLIC int sigpending(sigset_t *set)
{
	int ret = NEXT(sigpending)(set);

	if (ret == 0)
		set_out(set);
	return ret;
}

/* The BSD functions, with 32 signals in an int. */
int sigblock(int), sigsetmask(int), siggetmask(void);

VFIX_PUBLIC int sigblock(int mask)
{
	return mask_out((unsigned)NEXT(sigblock)(mask_in((unsigned)mask)));
}

VFIX_PUBLIC int sigsetmask(int mask)
{
	return mask_out((unsigned)NEXT(sigsetmask)(mask_in((unsigned)mask)));
}

VFIX_PUBLIC int siggetmask(void)
{
	return sigblock(0);
}

/* A pending SIGSEGV is taken as its stand-in. */
VFIX_PUBLIC int sigtimedwait(const sigset_t *restrict set, siginfo_t *restrict info, const struct timespec *restrict limit)
{
	sigset_t scratch;
	siginfo_t taken;
	int sig = NEXT(sigtimedwait)(set_of(set, mask_wait(bits_of(set)), &scratch), &taken, limit);

	if (sig == VFIX_STAND_IN && bits_of(set) & BIT(SIGSEGV)) {
		sig = taken.si_signo = SIGSEGV;
		taken.si_errno = 0;
	}
	if (sig > 0 && info)
		for (size_t i = 0; i < sizeof *info / sizeof(long); i++)
			((volatile long *)info)[i] = ((long *)&taken)[i];
	return sig;
}

VFIX_PUBLIC int sigwaitinfo(const sigset_t *restrict set, siginfo_t *restrict info)
{
	return sigtimedwait(set, info, 0);
}

VFIX_PUBLIC int sigwait(const sigset_t *restrict set, int *restrict sig)
{
	sigset_t scratch;
	int ret = NEXT(sigwait)(set_of(set, mask_wait(bits_of(set)), &scratch), sig);

	if (ret == 0 && *sig == VFIX_STAND_IN && bits_of(set) & BIT(SIGSEGV))
		*sig = SIGSEGV;
	return ret;
}
