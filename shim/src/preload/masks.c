/*
 * Functions that set a mask, or wait with one: SIGSEGV becomes BLOCKED on the way in, and SIGSEGV again on the way
 * out. They call the libc's own functions, which are cancellation points.
 */
#include <poll.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include "mask.h"

/* A SIGSEGV that was really blocked, without the library, is also unblocked. */
static const sigset_t *change(int how, const sigset_t *set, sigset_t *scratch)
{
	if (!set)
		return 0;
	return set_of(set, mask_in(bits_of(set)) | (how == SIG_UNBLOCK ? bits_of(set) & BIT(SIGSEGV) : 0), scratch);
}

PUBLIC int sigprocmask(int how, const sigset_t *restrict set, sigset_t *restrict old)
{
	sigset_t scratch;
	int ret = NEXT(sigprocmask)(how, change(how, set, &scratch), old);

	if (ret == 0)
		set_out(old);
	return ret;
}

/* Before glibc 2.32 it is in libpthread, which may not be loaded; a program may check for it with a weak reference,
 * and finds this one. */
PUBLIC int pthread_sigmask(int how, const sigset_t *restrict set, sigset_t *restrict old)
{
	__typeof__(&pthread_sigmask) next = NEXT(pthread_sigmask);
	sigset_t scratch;

	set = change(how, set, &scratch);
	int ret = next ? next(how, set, old) : (int)-syscall4(SYS_rt_sigprocmask, how, (long)set, (long)old, sizeof(uint64_t));
	if (ret == 0)
		set_out(old);
	return ret;
}

/* The set for the kernel. */
#define IN(set) set_of(set, (set) ? mask_in(bits_of(set)) : 0, &(sigset_t){ 0 })

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
