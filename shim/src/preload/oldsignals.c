/*
 * Older functions that set an action. For SIGSEGV they are implemented here, according to glibc's manual;
 * other signals are passed to the libc.
 */
#include <errno.h>
#include "mask.h"

typedef void (*handler)(int);

handler bsd_signal(int, handler), ssignal(int, handler), sysv_signal(int, handler), __sysv_signal(int, handler);
handler sigset(int, handler);
int sighold(int), sigrelse(int), sigignore(int), siginterrupt(int, int);

/* SIG_HOLD of X/Open. */
#define HOLD ((handler)2)

static handler set_action(handler new, int flags, uint64_t mask)
{
	struct sigaction action = { .sa_handler = new, .sa_flags = flags }, old;

	*(uint64_t *)&action.sa_mask = mask;
	vfix_start_late();
	if (vfix_fail(vfix_segv_action(&action, &old)) < 0)
		return SIG_ERR;
	return old.sa_handler;
}

/* Defines a function that sets an action permanently, as BSD's signal did. */
#define BSD(name)								\
VFIX_PUBLIC handler name(int sig, handler new)					\
{										\
	return sig == SIGSEGV ? set_action(new, SA_RESTART, BIT(SIGSEGV)) : NEXT(name)(sig, new);	\
}

/* Defines one that sets an action for one signal, as System V's. */
#define SYSV(name)								\
VFIX_PUBLIC handler name(int sig, handler new)					\
{										\
	return sig == SIGSEGV ? set_action(new, (int)SA_RESETHAND | SA_NODEFER, 0) : NEXT(name)(sig, new);	\
}

BSD(signal)
BSD(bsd_signal)
BSD(ssignal)
SYSV(sysv_signal)
SYSV(__sysv_signal)

/* 4.3BSD's, removed in glibc 2.21: bits/sigaction.h of earlier versions. */
struct sigvec { handler sv_handler; int sv_mask, sv_flags; };
enum { SV_ONSTACK = 1, SV_INTERRUPT = 2, SV_RESETHAND = 4 };
int sigvec(int, const struct sigvec *, struct sigvec *);

VFIX_PUBLIC int sigvec(int sig, const struct sigvec *new, struct sigvec *old)
{
	struct sigaction action = { 0 }, before;

	if (new) {
		action.sa_handler = new->sv_handler;
		*(uint64_t *)&action.sa_mask = (unsigned)new->sv_mask;
		action.sa_flags = (new->sv_flags & SV_ONSTACK ? SA_ONSTACK : 0) | (new->sv_flags & SV_INTERRUPT ? 0 : SA_RESTART) |
			(new->sv_flags & SV_RESETHAND ? (int)SA_RESETHAND : 0);
	}
	if (sigaction(sig, new ? &action : 0, &before))
		return -1;
	if (old) {
		old->sv_handler = before.sa_handler;
		old->sv_mask = (int)bits_of(&before.sa_mask);
		old->sv_flags = (before.sa_flags & SA_ONSTACK ? SV_ONSTACK : 0) | (before.sa_flags & SA_RESTART ? 0 : SV_INTERRUPT) |
			(before.sa_flags & (int)SA_RESETHAND ? SV_RESETHAND : 0);
	}
	return 0;
}

/* Blocks or unblocks SIGSEGV; returns whether it was blocked. */
static int block(int how)
{
	sigset_t segv = { { BIT(SIGSEGV) } }, old;

	*(uint64_t *)&old = 0;
	sigprocmask(how, &segv, &old);
	return !!(bits_of(&old) & BIT(SIGSEGV));
}

VFIX_PUBLIC handler sigset(int sig, handler new)
{
	struct sigaction now;

	if (sig != SIGSEGV)
		return NEXT(sigset)(sig, new);
	if (new == HOLD) {
		if (block(SIG_BLOCK))
			return HOLD;
		return vfix_segv_action(0, &now) ? SIG_ERR : now.sa_handler;
	}
	handler old = set_action(new, 0, 0);
	return block(SIG_UNBLOCK) ? HOLD : old;
}

VFIX_PUBLIC int sighold(int sig)
{
	if (sig != SIGSEGV)
		return NEXT(sighold)(sig);
	block(SIG_BLOCK);
	return 0;
}

VFIX_PUBLIC int sigrelse(int sig)
{
	if (sig != SIGSEGV)
		return NEXT(sigrelse)(sig);
	block(SIG_UNBLOCK);
	return 0;
}

VFIX_PUBLIC int sigignore(int sig)
{
	if (sig != SIGSEGV)
		return NEXT(sigignore)(sig);
	return set_action(SIG_IGN, 0, 0) == SIG_ERR ? -1 : 0;
}

VFIX_PUBLIC int siginterrupt(int sig, int interrupt)
{
	struct sigaction now;

	if (sig != SIGSEGV)
		return NEXT(siginterrupt)(sig, interrupt);
	vfix_segv_action(0, &now);
	now.sa_flags = interrupt ? now.sa_flags & ~SA_RESTART : now.sa_flags | SA_RESTART;
	return vfix_fail(vfix_segv_action(&now, 0));
}
