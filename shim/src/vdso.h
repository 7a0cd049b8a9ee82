/* Finding functions in the vDSO. No libc, no relocation, no writable data. */
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

/* The vDSO's address out of an auxiliary vector, 0 where it names none. */
uintptr_t vfix_vdso_base(const struct vfix_auxv *auxv);

/*
 * Fills found[] with the addresses of __vdso_gettimeofday, __vdso_time and __vdso_getcpu
 * in the ELF image at base; 0 for each that is not there. Returns how many were found.
 */
int vfix_vdso_lookup(uintptr_t base, uintptr_t found[VFIX_FUNCTIONS]);

/*
 * Whether the image at base is Linux's own, whose functions change no vector register. gVisor's has
 * the same name and no note.
 */
int vfix_vdso_is_linux(uintptr_t base);

/*
 * Calls visit for each symbol that the ELF image at base defines, with its name and address.
 * Returns the sum of what visit returned.
 */
int vfix_vdso_each(uintptr_t base, int (*visit)(const char *name, uintptr_t address, void *argument), void *argument);

#endif
