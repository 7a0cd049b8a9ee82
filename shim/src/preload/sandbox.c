/*
 * A program that gives up system calls for good: what healing makes of them would kill it.
 * From then on calls are served without one, but for the return from the handler.
 */
#include <sys/prctl.h>
#include "preload.h"

typedef int prctl_function(int, unsigned long, unsigned long, unsigned long, unsigned long);

prctl_function vfix_prctl __asm__("prctl");

/* Variadic in the headers; the arguments are in the same registers. */
VFIX_PUBLIC int vfix_prctl(int what, unsigned long a, unsigned long b, unsigned long c, unsigned long d)
{
	static void *next;

	if (what == PR_SET_SECCOMP)
		vfix_heal_wanted = vfix_log_wanted = 0;
	return ((prctl_function *)vfix_next("prctl", &next))(what, a, b, c, d);
}
