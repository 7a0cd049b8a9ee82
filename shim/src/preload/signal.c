/*
 * The two kinds of SIGSEGV: a call of the vsyscall page, which continues in the stand-in, or any other, which is the
 * program's.
 */
#include "preload.h"

static void block(int sig)
{
	raw_mask(SIG_BLOCK, BIT(sig), 0);
}

/*
 * The default action, at the instruction and with the registers of the program: a fault occurs again after the
 * handler is removed. A signal that was sent, and a fault whose instruction may not fault again (a stack too small
 * for a signal's frame), is sent again; it is blocked until the return from here.
 */
static void die(siginfo_t *info)
{
	struct kernel_action action = { 0 };	/* SIG_DFL */

	raw_action(SIGSEGV, &action, 0);
	if (info->si_code > 0 && info->si_code != SI_KERNEL)
		return;
	block(SIGSEGV);
	syscall4(SYS_rt_tgsigqueueinfo, syscall0(SYS_getpid), syscall0(SYS_gettid), SIGSEGV, (long)info);
}

/* SA_RESETHAND resets only the handler (kernel/signal.c, get_signal). */
static void reset(void)
{
	struct kernel_action action;

	raw_action(SIGSEGV, 0, &action);
	action.restorer &= ~WORD_HANDLER;	/* SIG_DFL is 0 */
	raw_action(SIGSEGV, &action, 0);
}

/* Handles a SIGSEGV with this action of the program; returns the handler to run. */
static uintptr_t deliver(siginfo_t *info, int blocked, uintptr_t word)
{
	int sent = info->si_code <= 0;
	uintptr_t handler = word & WORD_OURS ? word & WORD_HANDLER : (uintptr_t)SIG_DFL;

	if (sent && (blocked || handler == (uintptr_t)SIG_IGN))
		return 0;
	/* A blocked or ignored fault kills (kernel/signal.c, force_sig_info). */
	if (blocked || handler == (uintptr_t)SIG_IGN || handler == (uintptr_t)SIG_DFL) {
		die(info);
		return 0;
	}
	if (!(word & WORD_NODEFER) || word & WORD_MASKED)
		block(BLOCKED);
	if (word & WORD_RESETHAND)
		reset();
	return handler;
}

#define FRUITLESS_MOST 64	/* sites that could not be changed, until no more are tried */

/* Changes the site that called, with all signals blocked, so that no handler jumps away in between. */
static void heal(uintptr_t ra)
{
	static int fruitless;
	uintptr_t site = ra - AFTER_CALL;
	int readable = site / PAGE_BYTES == ra / PAGE_BYTES;	/* else the page before may not be mapped */
	uint64_t before;

	vfix_say(ra, "served");
	if (!readable || !is_site((const unsigned char *)site) || fruitless > FRUITLESS_MOST)
		return;
	raw_mask(SIG_SETMASK, ~0ull, &before);
	vfix_sweep(site);
	fruitless += is_site((const unsigned char *)site);
	raw_mask(SIG_SETMASK, before, 0);
}

/*
 * Called by vfix_entry; word is the program's action. Returns the handler to run, or 0 to return. Decides by the
 * instruction pointer: with LASS, si_addr does not have the fault's address.
 */
HIDDEN uintptr_t vfix_on_signal(int sig, siginfo_t *info, ucontext_t *context, uintptr_t word)
{
	static const short number[VFIX_FUNCTIONS] = { SYS_gettimeofday, SYS_time, SYS_getcpu };
	greg_t *regs = context->uc_mcontext.gregs;
	int function = info->si_code > 0 ? entry_at((uintptr_t)regs[REG_RIP]) : -1;

	(void)sig;
	if (function < 0)
		return deliver(info, !!(*(uint64_t *)&context->uc_sigmask & BIT(BLOCKED)), word);
	uintptr_t page = vfix_page(), ra = *(uintptr_t *)regs[REG_RSP];

	if (!page) {	/* it cannot be mapped here */
		regs[REG_RAX] = syscall3(number[function], regs[REG_RDI], regs[REG_RSI], 0);
		regs[REG_RIP] = (greg_t)ra;
		regs[REG_RSP] += sizeof ra;
		return 0;
	}
	if (vfix_heals)
		heal(ra);
	regs[REG_RIP] = (greg_t)(page + (uintptr_t)function * ENTRY_BYTES);
	return 0;
}
