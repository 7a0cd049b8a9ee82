/*
 * A program that permanently gives up system calls: those of healing would kill it. From then on, calls are
 * served without system calls, except for the return from the handler. Also system calls through the libc's
 * syscall (syscall.S), as libseccomp makes them.
 */
#include <sys/prctl.h>
#include "mask.h"

/* uapi/linux/seccomp.h */
enum { SET_MODE_STRICT = 0, SET_MODE_FILTER = 1, FLAG_TSYNC = 1, FLAG_NEW_LISTENER = 8 };

typedef int prctl_function(int, unsigned long, unsigned long, unsigned long, unsigned long);

prctl_function vfix_prctl __asm__("prctl");

/* Variadic in the headers; the arguments are in the same registers. */
VFIX_PUBLIC int vfix_prctl(int what, unsigned long a, unsigned long b, unsigned long c, unsigned long d)
{
	static void *next;
	int healing = what == PR_SET_SECCOMP ? vfix_heal_stop() : 0;
	int ret = ((prctl_function *)vfix_next("prctl", &next))(what, a, b, c, d);

	if (what == PR_SET_SECCOMP && ret)
		vfix_heal_again(healing);
	return ret;
}

/* A positive number is a thread that prevented the change. */
static long set_filter(long number, long a, long b, long c, long d, long e)
{
	int healing = vfix_heal_stop();
	long ret = syscall5(number, a, b, c, d, e);
	int one_refused = number == SYS_seccomp && b & FLAG_TSYNC && !(b & FLAG_NEW_LISTENER) && ret > 0;

	if (ret < 0 || one_refused)
		vfix_heal_again(healing);
	return vfix_fail(ret);
}

static long set_mask(long how, const uint64_t *set, uint64_t *old)
{
	uint64_t mask = set ? how == SIG_UNBLOCK ? mask_unblock(*set) : mask_in(*set) : 0;
	long ret = syscall4(SYS_rt_sigprocmask, how, set ? (long)&mask : 0, (long)old, sizeof mask);

	if (!ret && old)
		*old = mask_out(*old);
	return vfix_fail(ret);
}

VFIX_HIDDEN long vfix_syscall(long number, long a, long b, long c, long d, long e)
{
	if (number == SYS_rt_sigprocmask && d == sizeof(uint64_t))
		return set_mask(a, (const uint64_t *)b, (uint64_t *)c);
	if (number == SYS_prctl ? a == PR_SET_SECCOMP : number == SYS_seccomp && (a == SET_MODE_STRICT || a == SET_MODE_FILTER))
		return set_filter(number, a, b, c, d, e);
	return vfix_fail(syscall5(number, a, b, c, d, e));
}

VFIX_HIDDEN void *vfix_next_syscall;

VFIX_HIDDEN void *vfix_find_syscall(void)
{
	return vfix_next("syscall", &vfix_next_syscall);
}
