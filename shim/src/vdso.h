/* Finds functions in the vDSO. No libc, no relocation, no writable data. */
#ifndef VFIX_VDSO_H
#define VFIX_VDSO_H

#include <stdint.h>

/* The functions in the order of the vsyscall page. */
enum { VFIX_GETTIMEOFDAY, VFIX_TIME, VFIX_GETCPU, VFIX_FUNCTIONS };

/* One entry of the auxiliary vector (psABI 3.4.1), as 64-bit words. */
struct vfix_auxv {
	uint64_t type;
	uint64_t value;
};

/* The vDSO's address in an auxiliary vector, 0 if it has none. */
uintptr_t vfix_vdso_base(const struct vfix_auxv *auxv);

/* For the trampolines (trampolines.S): the addresses of the functions, 0 for missing ones, for the plain
 * trampolines; and for the exact ones, 0 if a call of the function may change more than a call of C code in
 * Linux's vDSO does. */
struct vfix_state {
	uintptr_t plain[VFIX_FUNCTIONS];
	uintptr_t exact[VFIX_FUNCTIONS];
};

/*
 * Fills state with __vdso_gettimeofday, __vdso_time and __vdso_getcpu of the ELF image at base; the exact
 * ones only if the image is Linux's own, whose functions change no vector register and need no alignment:
 * gVisor's has the same name but no note. Returns the number of functions found.
 */
int vfix_vdso_lookup(uintptr_t base, struct vfix_state *state);

/* The address of a symbol that the ELF image at base defines, or 0. */
uintptr_t vfix_vdso_symbol(uintptr_t base, const char *name);

#endif
