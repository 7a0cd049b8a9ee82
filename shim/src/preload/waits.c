/*
 * Waits with their own mask. A mask with SIGSEGV in it would kill a handler that runs during the wait and
 * calls the page.
 */
#include <poll.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include "mask.h"

extern const char *gnu_get_libc_version(void) __attribute__((weak));

/* The set for the kernel; scratch is its memory. */
#define IN(set) set_of(set, (set) ? mask_in(bits_of(set)) : 0, &(sigset_t){ 0 })

VFIX_PUBLIC int sigsuspend(const sigset_t *set)
{
	return NEXT(sigsuspend)(IN(set));
}

VFIX_PUBLIC __typeof__(sigsuspend) __sigsuspend __attribute__((alias("sigsuspend")));

VFIX_PUBLIC int ppoll(struct pollfd *fds, nfds_t n, const struct timespec *limit, const sigset_t *set)
{
	return NEXT(ppoll)(fds, n, limit, IN(set));
}

int __ppoll_chk(struct pollfd *, nfds_t, const struct timespec *, const sigset_t *, size_t);

VFIX_PUBLIC int __ppoll_chk(struct pollfd *fds, nfds_t n, const struct timespec *limit, const sigset_t *set, size_t size)
{
	return NEXT(__ppoll_chk)(fds, n, limit, IN(set), size);
}

VFIX_PUBLIC int pselect(int n, fd_set *restrict in, fd_set *restrict out, fd_set *restrict except,
			const struct timespec *restrict limit, const sigset_t *restrict set)
{
	return NEXT(pselect)(n, in, out, except, limit, IN(set));
}

VFIX_PUBLIC int epoll_pwait(int fd, struct epoll_event *events, int n, int limit, const sigset_t *set)
{
	return NEXT(epoll_pwait)(fd, events, n, limit, IN(set));
}

int epoll_pwait2(int, struct epoll_event *, int, const struct timespec *, const sigset_t *);

VFIX_PUBLIC int epoll_pwait2(int fd, struct epoll_event *events, int n, const struct timespec *limit, const sigset_t *set)
{
	return NEXT(epoll_pwait2)(fd, events, n, limit, IN(set));
}

/* glibc's sigpause takes BSD's mask, musl's a signal; __sigpause takes either. */
int sigpause(int), __sigpause(int, int), __xpg_sigpause(int);

static int stand_in(int sig)
{
	return sig == SIGSEGV ? VFIX_STAND_IN : sig;
}

VFIX_PUBLIC int sigpause(int mask)
{
	return NEXT(sigpause)(gnu_get_libc_version ? (int)mask_in((unsigned)mask) : stand_in(mask));
}

VFIX_PUBLIC int __xpg_sigpause(int sig)
{
	return NEXT(__xpg_sigpause)(stand_in(sig));
}

VFIX_PUBLIC int __sigpause(int value, int is_sig)
{
	return NEXT(__sigpause)(is_sig ? stand_in(value) : (int)mask_in((unsigned)value), is_sig);
}
