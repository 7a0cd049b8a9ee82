/*
 * libvfix.so, the preload library: declarations that its parts share.
 *
 * It has no table of the program's settings for SIGSEGV. The kernel stores them:
 *
 *	action  the handler is vfix_entry; the program's own handler, and its flags that must not act on vfix_entry,
 *	        are in sa_restorer (WORD_ below), which the kernel puts on the stack where vfix_entry finds it
 *	mask    SIGSEGV is never blocked, because a fault would then kill. The bit of BLOCKED, a signal that Linux
 *	        on x86 never sends, is set if the program blocked SIGSEGV
 *
 * So fork, vfork, threads, siglongjmp and all masks that the kernel or the libc saves, swaps or inherits are
 * correct without the library.
 */
#ifndef VFIX_PRELOAD_H
#define VFIX_PRELOAD_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <signal.h>
#include <ucontext.h>
#include "../fallback.h"
#include "../syscall.h"

#define PUBLIC __attribute__((visibility("default")))

#define SELF 0	/* the task of vfix_call and others (fallback.h) */
#define BLOCKED SIGSTKFLT
#define BIT(signal) (1ull << ((signal) - 1))

/* The argument of rt_sigaction, with the kernel's mask of 64 bits (uapi/asm/signal.h). */
struct kernel_action {
	uintptr_t handler;
	unsigned long flags;
	uintptr_t restorer;
	uint64_t mask;
};
#define SA_KERNEL_RESTORER 0x04000000ul

/* The program's action as one word: no address of a program has these bits, even with five levels of page tables.
 * Without WORD_OURS, the libc itself set the action again, and the word is its restorer. */
#define WORD_HANDLER	((1ull << 57) - 1)
#define WORD_SIGINFO	(1ull << 57)
#define WORD_NODEFER	(1ull << 58)
#define WORD_RESETHAND	(1ull << 59)
#define WORD_MASKED	(1ull << 60)	/* SIGSEGV is in the program's sa_mask */
#define WORD_OURS	(1ull << 61)

/* entry.S: the handler that the kernel calls, and the return address of handlers. */
HIDDEN void vfix_entry(void);
HIDDEN void vfix_restorer(void);

/* start.c: takes over SIGSEGV. Only the first call has an effect. */
HIDDEN void vfix_start_late(void);
/* Settings of the environment, VFIX_HEAL and VFIX_LOG. */
HIDDEN extern int vfix_heals, vfix_logs;
/* The value of a variable; its name ends with "=". 0 without it. */
HIDDEN const char *vfix_variable(char **envp, const char *name);

/* page.c: the stand-in, mapped at the first call, 0 if it cannot be. */
HIDDEN uintptr_t vfix_page(void);
HIDDEN extern uintptr_t vfix_vdso;	/* its address, 0 without one */
/* 1 if the page can be executed from now on: a policy may forbid it (MemoryDenyWriteExecute, SELinux). */
HIDDEN int vfix_seal(uintptr_t page);

/* sweep.c: changes a site that is calling, and all others in its file's code. For 0: the sites in the code of all files,
 * while no other thread runs. */
HIDDEN void vfix_sweep(uintptr_t site);
/* Changes the sites in some private code, while no other thread runs. */
HIDDEN void vfix_search(const unsigned char *code, const unsigned char *end);
/* Writes "vfix: 0xADDRESS: WHAT" to stderr if VFIX_LOG=1. */
HIDDEN void vfix_say(uintptr_t address, const char *what);

static inline long raw_action(int sig, const struct kernel_action *new, struct kernel_action *old)
{
	return syscall4(SYS_rt_sigaction, sig, (long)new, (long)old, sizeof old->mask);
}

static inline long raw_mask(int how, uint64_t set, uint64_t *old)
{
	return syscall4(SYS_rt_sigprocmask, how, (long)&set, (long)old, sizeof set);
}

/* action.c: sigaction for SIGSEGV, in the kernel's structs; returns 0 or a negative error number. */
HIDDEN long vfix_segv_action(const struct kernel_action *new, struct kernel_action *old);

/* next.c: the function with that name in the libraries behind this one, cached in *cache; 0 if there is none. */
HIDDEN void *vfix_next(const char *name, void **cache);
#define NEXT(name) ({ static void *cache_; (__typeof__(&name))vfix_next(#name, &cache_); })
/* The path of this library, as ld.so loaded it. */
HIDDEN const char *vfix_own_path(void);

/* Stores an error number as the libc does, and returns -1; other results as they are. */
HIDDEN long vfix_fail(long result);

#endif
