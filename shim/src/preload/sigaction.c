/*
 * sigaction, with both of its names. For SIGSEGV it is implemented here; for other signals only the mask is
 * translated.
 */
#include "mask.h"

VFIX_PUBLIC int sigaction(int sig, const struct sigaction *restrict new, struct sigaction *restrict old)
{
	struct sigaction translated;
	int ret;

	if (sig == SIGSEGV) {
		vfix_start_late();
		return vfix_fail(vfix_segv_action(new, old));
	}
	if (new) {
		translated.sa_handler = new->sa_handler;
		translated.sa_flags = new->sa_flags;
		translated.sa_restorer = new->sa_restorer;
		set_of(&new->sa_mask, mask_in(bits_of(&new->sa_mask)), &translated.sa_mask);
	}
	ret = NEXT(sigaction)(sig, new ? &translated : 0, old);
	if (ret == 0 && old)
		set_out(&old->sa_mask);
	return ret;
}

VFIX_PUBLIC __typeof__(sigaction) __sigaction __attribute__((alias("sigaction")));
