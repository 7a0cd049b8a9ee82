/*
 * Conversion of masks between the program and the kernel: the program's SIGSEGV is the kernel's BLOCKED. The
 * program's own BLOCKED is dropped; it is reported if the set was obviously filled (it also has SIGPWR, which
 * programs do not block by name).
 */
#ifndef VFIX_MASK_H
#define VFIX_MASK_H

#include "preload.h"

static inline uint64_t mask_in(uint64_t mask)
{
	uint64_t rest = mask & ~(BIT(SIGSEGV) | BIT(BLOCKED));

	return mask & BIT(SIGSEGV) ? rest | BIT(BLOCKED) : rest;
}

static inline uint64_t mask_out(uint64_t mask)
{
	if (!(mask & BIT(BLOCKED)))
		return mask;
	return (mask & BIT(SIGPWR) ? mask : mask & ~BIT(BLOCKED)) | BIT(SIGSEGV);
}

/* The 64 signals of a set; the rest of a sigset_t is unused. */
static inline uint64_t bits_of(const sigset_t *set)
{
	return *(const uint64_t *)set;
}

static inline void set_out(sigset_t *set)
{
	if (set)
		*(uint64_t *)set = mask_out(bits_of(set));
}

#endif
