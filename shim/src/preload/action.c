/*
 * The program's SIGSEGV action, which the kernel stores for the library (preload.h).
 */
#include "mask.h"

/* Flags that have the same effect on vfix_entry as on the program's handler. */
#define SHARED_FLAGS (SA_ONSTACK | SA_RESTART)

/* A program that queries the kernel directly gets vfix_entry, which is not one of its handlers. */
static uintptr_t word_of(const struct sigaction *action)
{
	uintptr_t word = (uintptr_t)action->sa_handler & WORD_HANDLER;

	if (word == (uintptr_t)vfix_entry)
		return (uintptr_t)SIG_DFL;
	if (action->sa_flags & SA_SIGINFO)
		word |= WORD_SIGINFO;
	if (action->sa_flags & SA_NODEFER)
		word |= WORD_NODEFER;
	if (action->sa_flags & (int)SA_RESETHAND)
		word |= WORD_RESETHAND;
	if (bits_of(&action->sa_mask) & BIT(SIGSEGV))
		word |= WORD_MASKED;
	return word;
}

/* The stand-in is not in the kernel's mask: a bad pointer that faults while the page is served is not a
 * fault in the program's handler. vfix_on_signal blocks the stand-in before it runs that. */
static void encode(const struct sigaction *action, struct kernel_action *kernel)
{
	kernel->handler = (uintptr_t)vfix_entry;
	kernel->restorer = word_of(action);
	kernel->flags = SA_SIGINFO | SA_NODEFER | SA_RESTORER | (action->sa_flags & SHARED_FLAGS);
	kernel->mask = mask_in(bits_of(&action->sa_mask)) & ~BIT(VFIX_STAND_IN);
	/* Interrupts only calls for which the program permits it. */
	if (action->sa_handler == SIG_IGN)
		kernel->flags |= SA_RESTART;
}

static void decode(const struct kernel_action *kernel, struct sigaction *action)
{
	uintptr_t word = kernel->restorer;

	action->sa_flags = kernel->flags;
	action->sa_restorer = vfix_restorer;
	if (kernel->handler != (uintptr_t)vfix_entry) {	/* set without the library's knowledge, or before it */
		action->sa_handler = (void (*)(int))kernel->handler;
		action->sa_restorer = (void (*)(void))word;
		*(uint64_t *)&action->sa_mask = mask_out(kernel->mask);
		return;
	}
	action->sa_handler = (void (*)(int))(word & WORD_HANDLER);
	action->sa_flags &= ~(SA_SIGINFO | SA_NODEFER);
	if (word & WORD_SIGINFO)
		action->sa_flags |= SA_SIGINFO;
	if (word & WORD_NODEFER)
		action->sa_flags |= SA_NODEFER;
	if (word & WORD_RESETHAND)
		action->sa_flags |= (int)SA_RESETHAND;
	if (action->sa_handler == SIG_IGN || action->sa_handler == SIG_DFL)
		action->sa_flags &= ~SA_RESTART;
	*(uint64_t *)&action->sa_mask = mask_out(kernel->mask | (word & WORD_MASKED ? BIT(VFIX_STAND_IN) : 0));
}

int vfix_segv_action(const struct sigaction *new, struct sigaction *old)
{
	struct kernel_action kernel, before;

	if (new)
		encode(new, &kernel);
	long error = raw_action(SIGSEGV, new ? &kernel : 0, &before);
	if (!error && old)
		decode(&before, old);
	return error;
}
