/*
 * libvfix.so, the preload library: declarations that its parts share.
 *
 * The library has no table of the program's settings for SIGSEGV. The kernel stores them:
 *
 *	action  the handler is vfix_entry; the program's own handler and the flags that must not
 *	        act on vfix_entry are in sa_restorer (WORD_ below), which the kernel puts on
 *	        the stack where vfix_entry finds it; mask and the other flags are the program's
 *	mask    SIGSEGV is never blocked, for a fault would then kill. The bit of VFIX_STAND_IN,
 *	        a signal that Linux on x86 never sends, is set where the program blocked SIGSEGV
 *
 * So fork, vfork, threads, siglongjmp, swapcontext and all masks that the kernel or the libc saves, swaps
 * or inherits are correct without the library.
 */
#ifndef VFIX_PRELOAD_H
#define VFIX_PRELOAD_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <ucontext.h>
#include "../core/page.h"
#include "../syscall.h"
#include "../vdso.h"

#define VFIX_HIDDEN __attribute__((visibility("hidden")))
#define VFIX_PUBLIC __attribute__((visibility("default")))

#define PAGE_SIZE 4096
#define VFIX_STAND_IN SIGSTKFLT
#define BIT(signal) (1ull << ((signal) - 1))

/* include/uapi/asm/signal.h: the argument of rt_sigaction, with the kernel's mask of 64 bits. */
struct kernel_action {
	uintptr_t handler;
	unsigned long flags;
	uintptr_t restorer;
	uint64_t mask;
};

/* The program's action as one word: no address of a program has these bits, even with five levels of page
 * tables (56 bits). */
#define WORD_HANDLER	((1ull << 57) - 1)
#define WORD_SIGINFO	(1ull << 57)
#define WORD_NODEFER	(1ull << 58)
#define WORD_RESETHAND	(1ull << 59)
#define WORD_MASKED	(1ull << 60)	/* SIGSEGV itself is in the program's sa_mask */

/* entry.S: the handler that the kernel calls, and the return address of handlers. */
VFIX_HIDDEN void vfix_entry(void);
VFIX_HIDDEN void vfix_restorer(void);

/* start.c: takes over SIGSEGV, with the vDSO at that address; or with the address from the kernel. Only the
 * first call has an effect. */
VFIX_HIDDEN void vfix_start(uintptr_t vdso);
VFIX_HIDDEN void vfix_start_late(void);

/* state.c: the values of VFIX_HEAL and VFIX_LOG; the vDSO's functions in order, 0 for a missing one, or
 * before the start. */
VFIX_HIDDEN extern int vfix_heal_wanted, vfix_log_wanted;
VFIX_HIDDEN extern union sealed_state { struct vfix_state state; char page[PAGE_SIZE]; } vfix_found;

/* serve.c: calls the function in the vDSO, or the kernel; returns the result of the page. */
VFIX_HIDDEN long vfix_serve(int function, uintptr_t a, uintptr_t b);

/* heal.c: makes the call site that returns to ra call the vDSO if possible; at most once. regs are the
 * registers at the entry. */
VFIX_HIDDEN void vfix_heal(uintptr_t ra, int function);
VFIX_HIDDEN void vfix_heal_start(void);
/* 1 if the fault comes from code that is being changed; regs are then the registers to continue with. */
VFIX_HIDDEN int vfix_on_change(greg_t *regs);
/* Stops healing; the second function restores the previous state. */
VFIX_HIDDEN int vfix_heal_stop(void);
VFIX_HIDDEN void vfix_heal_again(int before);

/* linux/membarrier.h, Linux 4.16 */
#define MEMBARRIER_SYNC_CORE (1 << 5)
#define MEMBARRIER_REGISTER_SYNC_CORE (1 << 6)

static inline long raw_action(int sig, const struct kernel_action *new, struct kernel_action *old)
{
	return syscall4(SYS_rt_sigaction, sig, (long)new, (long)old, sizeof old->mask);
}

/* action.c: sigaction for SIGSEGV; returns 0 or a negative error number. */
VFIX_HIDDEN int vfix_segv_action(const struct sigaction *new, struct sigaction *old);

/* next.c: the function with that name in the libraries behind this one, cached in *cache; vfix_none, which
 * returns ENOSYS, if there is none. */
VFIX_HIDDEN long vfix_none(void);
VFIX_HIDDEN void *vfix_next(const char *name, void **cache);
#define NEXT(name) ({ static void *cache_; (__typeof__(&name))vfix_next(#name, &cache_); })

/* fail.c: stores an error number as the libc does; returns -1. */
VFIX_HIDDEN long vfix_fail(long error);

#endif
