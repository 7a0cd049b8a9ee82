/*
 * Functions that set a mask, or wait with one: SIGSEGV becomes BLOCKED on the way in, and SIGSEGV again on the way
 * out. The functions that wait are the libc's own, which are cancellation points.
 */
#include <poll.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include "mask.h"

#define INTERNAL (BIT(32) | BIT(33))	/* of glibc's threads, SIGCANCEL and SIGSETXID: never blocked */

/* A SIGSEGV that was really blocked, without the library, is also unblocked. */
static long change(int how, const sigset_t *set, sigset_t *old)
{
	uint64_t new = set ? mask_in(bits_of(set)) & ~INTERNAL : 0;

	if (set && how == SIG_UNBLOCK)
		new |= bits_of(set) & BIT(SIGSEGV);
	long result = syscall4(SYS_rt_sigprocmask, how, set ? (long)&new : 0, (long)old, sizeof new);
	if (!result)
		set_out(old);
	return result;
}

PUBLIC int sigprocmask(int how, const sigset_t *restrict set, sigset_t *restrict old)
{
	return (int)vfix_fail(change(how, set, old));
}

PUBLIC int pthread_sigmask(int how, const sigset_t *restrict set, sigset_t *restrict old)
{
	return (int)-change(how, set, old);
}

/* The set for the kernel, which reads its first word only. */
#define IN(set) ((set) ? (const sigset_t *)&(uint64_t){ mask_in(bits_of(set)) } : 0)

PUBLIC int sigsuspend(const sigset_t *set)
{
	return NEXT(sigsuspend)(IN(set));
}

PUBLIC int ppoll(struct pollfd *fds, nfds_t n, const struct timespec *limit, const sigset_t *set)
{
	return NEXT(ppoll)(fds, n, limit, IN(set));
}

PUBLIC int pselect(int n, fd_set *restrict in, fd_set *restrict out, fd_set *restrict except,
		   const struct timespec *restrict limit, const sigset_t *restrict set)
{
	return NEXT(pselect)(n, in, out, except, limit, IN(set));
}

PUBLIC int epoll_pwait(int fd, struct epoll_event *events, int n, int limit, const sigset_t *set)
{
	return NEXT(epoll_pwait)(fd, events, n, limit, IN(set));
}
