/*
 * The program's SIGSEGV action, which the kernel stores for the library (preload.h), and the functions that set one.
 * Other signals are the libc's; only their masks are translated.
 */
#include "mask.h"

/* Flags that have the same effect on vfix_entry as on the program's handler, and those in the word. */
#define SHARED_FLAGS (unsigned long)(SA_ONSTACK | SA_RESTART)
static const struct { unsigned flag; uintptr_t word; } inner[] = {
	{ SA_SIGINFO, WORD_SIGINFO }, { SA_NODEFER, WORD_NODEFER }, { SA_RESETHAND, WORD_RESETHAND },
};

/* BLOCKED is not in the kernel's mask: a bad pointer that faults while a call is served is not a fault in the
 * program's handler. vfix_on_signal blocks it before it runs that. */
static void encode(const struct kernel_action *action, struct kernel_action *kernel)
{
	uintptr_t word = (action->handler & WORD_HANDLER) | WORD_OURS;

	if (action->handler == (uintptr_t)vfix_entry)	/* a program that asked the kernel itself */
		word = WORD_OURS;
	for (size_t i = 0; i < sizeof inner / sizeof *inner; i++)
		if (action->flags & inner[i].flag)
			word |= inner[i].word;
	if (action->mask & BIT(SIGSEGV))
		word |= WORD_MASKED;
	kernel->handler = (uintptr_t)vfix_entry;
	kernel->restorer = word;
	kernel->flags = SA_SIGINFO | SA_NODEFER | SA_KERNEL_RESTORER | (action->flags & SHARED_FLAGS);
	kernel->mask = mask_in(action->mask) & ~BIT(BLOCKED);
	if (action->handler == (uintptr_t)SIG_IGN)	/* an ignored signal interrupts no call */
		kernel->flags |= SA_RESTART;
}

static void decode(const struct kernel_action *kernel, struct kernel_action *action)
{
	uintptr_t word = kernel->restorer;

	action->handler = kernel->handler;
	action->flags = kernel->flags & ~SA_KERNEL_RESTORER;
	action->restorer = (uintptr_t)vfix_restorer;
	action->mask = mask_out(kernel->mask);
	if (kernel->handler != (uintptr_t)vfix_entry || !(word & WORD_OURS))	/* set without the library's knowledge */
		return;
	action->handler = word & WORD_HANDLER;
	for (size_t i = 0; i < sizeof inner / sizeof *inner; i++)
		action->flags = (action->flags & ~(unsigned long)inner[i].flag) | (word & inner[i].word ? inner[i].flag : 0);
	if (action->handler == (uintptr_t)SIG_IGN || action->handler == (uintptr_t)SIG_DFL)
		action->flags &= ~(unsigned long)SA_RESTART;
	if (word & WORD_MASKED)
		action->mask |= BIT(SIGSEGV);
}

long vfix_segv_action(const struct kernel_action *new, struct kernel_action *old)
{
	struct kernel_action kernel, before;

	if (new)
		encode(new, &kernel);
	long error = raw_action(SIGSEGV, new ? &kernel : 0, &before);
	if (!error && old)
		decode(&before, old);
	return error;
}

static int segv(const struct sigaction *new, struct sigaction *old)
{
	struct kernel_action action, before;

	vfix_start_late();
	if (new)
		action = (struct kernel_action){ (uintptr_t)new->sa_handler, (unsigned)new->sa_flags, 0, bits_of(&new->sa_mask) };
	long error = vfix_segv_action(new ? &action : 0, &before);
	if (!error && old) {
		old->sa_handler = (void (*)(int))before.handler;
		old->sa_flags = (int)before.flags;
		old->sa_restorer = (void (*)(void))before.restorer;
		*(uint64_t *)&old->sa_mask = before.mask;
	}
	return (int)vfix_fail(error);
}

PUBLIC int sigaction(int sig, const struct sigaction *restrict new, struct sigaction *restrict old)
{
	struct sigaction translated;

	if (sig == SIGSEGV)
		return segv(new, old);
	if (new) {
		translated.sa_handler = new->sa_handler;
		translated.sa_flags = new->sa_flags;
		translated.sa_restorer = new->sa_restorer;
		*(uint64_t *)&translated.sa_mask = mask_in(bits_of(&new->sa_mask));
	}
	int ret = NEXT(sigaction)(sig, new ? &translated : 0, old);
	if (ret == 0 && old)
		set_out(&old->sa_mask);
	return ret;
}

PUBLIC __typeof__(sigaction) __sigaction __attribute__((alias("sigaction")));

typedef void (*handler)(int);
handler __sysv_signal(int, handler);

static handler set(handler new, int flags, uint64_t mask)
{
	struct sigaction action = { .sa_handler = new, .sa_flags = flags }, old;

	*(uint64_t *)&action.sa_mask = mask;
	return segv(&action, &old) ? SIG_ERR : old.sa_handler;
}

/* BSD's signal sets an action permanently, System V's for one signal (glibc manual, 24.3.1). */
PUBLIC handler signal(int sig, handler new)
{
	return sig == SIGSEGV ? set(new, SA_RESTART, BIT(SIGSEGV)) : NEXT(signal)(sig, new);
}

PUBLIC handler __sysv_signal(int sig, handler new)
{
	return sig == SIGSEGV ? set(new, (int)SA_RESETHAND | SA_NODEFER, 0) : NEXT(__sysv_signal)(sig, new);
}

PUBLIC handler bsd_signal(int, handler) __attribute__((alias("signal")));
PUBLIC handler ssignal(int, handler) __attribute__((alias("signal")));
PUBLIC handler sysv_signal(int, handler) __attribute__((alias("__sysv_signal")));
