/*
 * The kinds of SIGSEGV: a call to the vsyscall page, which is served here, or any other, which is the
 * program's.
 */
#include "preload.h"

/* Marks a SIGSEGV that is pending as its stand-in; si_errno is zero in all others. */
#define WAITING 0x76666978

static void send(int sig, siginfo_t *info)
{
	syscall4(SYS_rt_tgsigqueueinfo, syscall0(SYS_getpid), syscall0(SYS_gettid), sig, (long)info);
}

static void block(int sig)
{
	uint64_t mask = BIT(sig);

	syscall4(SYS_rt_sigprocmask, SIG_BLOCK, (long)&mask, 0, sizeof mask);
}

/*
 * The default action, at the instruction and with the registers of the program: a fault occurs again after
 * the handler is removed. A signal that was sent, and a fault whose instruction may not fault again (a
 * stack too small for a signal's frame), is sent again; it is blocked until the return from here.
 */
static void die(int sig, siginfo_t *info)
{
	struct kernel_action action = { 0 };	/* SIG_DFL */

	raw_action(sig, &action, 0);
	if (info->si_code > 0 && info->si_code != SI_KERNEL)
		return;
	block(sig);
	send(sig, info);
}

/* A SIGSEGV was sent to a program that blocks it: it becomes pending in the kernel, as its stand-in. */
static void set_aside(siginfo_t *info)
{
	struct kernel_action action;

	raw_action(SIGSEGV, 0, &action);
	raw_action(VFIX_STAND_IN, &action, 0);
	info->si_errno = WAITING;
	send(VFIX_STAND_IN, info);
}

/* SA_RESETHAND: this resets only the handler (kernel/signal.c, get_signal). */
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
	uintptr_t handler = word & WORD_HANDLER;

	if (sent && blocked) {
		set_aside(info);
		return 0;
	}
	if (sent && handler == (uintptr_t)SIG_IGN)
		return 0;
	/* A blocked or ignored fault kills (kernel/signal.c, force_sig_info). */
	if (blocked || handler == (uintptr_t)SIG_IGN || handler == (uintptr_t)SIG_DFL) {
		die(SIGSEGV, info);
		return 0;
	}
	if (!(word & WORD_NODEFER) || word & WORD_MASKED)
		block(VFIX_STAND_IN);
	if (word & WORD_RESETHAND)
		reset();
	return handler;
}

/* The stand-in: a SIGSEGV that was pending, or a VFIX_STAND_IN that another process sent, which kills. */
static uintptr_t unwait(siginfo_t *info, int blocked)
{
	struct kernel_action action;

	if (info->si_errno != WAITING) {
		die(VFIX_STAND_IN, info);
		return 0;
	}
	info->si_errno = 0;
	info->si_signo = SIGSEGV;
	raw_action(SIGSEGV, 0, &action);
	return deliver(info, blocked, action.restorer);
}

/*
 * Called by vfix_entry; word is the program's action. Returns the handler to run, or 0 to return. Decides
 * by the instruction pointer: with LASS, si_addr does not have the fault's address.
 */
VFIX_HIDDEN uintptr_t vfix_on_signal(int sig, siginfo_t *info, ucontext_t *context, uintptr_t word)
{
	greg_t *regs = context->uc_mcontext.gregs;
	int blocked = !!(*(uint64_t *)&context->uc_sigmask & BIT(VFIX_STAND_IN));

	if (sig == VFIX_STAND_IN)
		return unwait(info, blocked);
	int function = vfix_function_at(regs[REG_RIP]);

	if (function < 0 && info->si_code == SI_KERNEL && vfix_on_change(regs))
		return 0;
	if (function < 0 || info->si_code <= 0)
		return deliver(info, blocked, word);
	uintptr_t ra = *(uintptr_t *)regs[REG_RSP];
	long result = vfix_serve(function, regs[REG_RDI], regs[REG_RSI]);

	vfix_heal(ra, function);
	regs[REG_RAX] = result;
	regs[REG_RIP] = ra;
	regs[REG_RSP] += sizeof ra;
	return 0;
}
