/* The kernel's auxiliary vector, and the vDSO in it. */
#ifndef VFIX_AUXV_H
#define VFIX_AUXV_H

#include "vdso.h"

/* The vector behind the NULL that ends envp (psABI 3.4.1, figure 3.9). */
const struct vfix_auxv *vfix_auxv_behind(char **envp);

/*
 * The vector after the arguments of an initializer, or 0 if these are not the kernel's: after setenv, glibc
 * passes a heap copy of envp, and musl passes no arguments. The registers are checked before any of them is
 * dereferenced.
 */
const struct vfix_auxv *vfix_auxv_of_init(int argc, char **argv, char **envp);

/* The vDSO's address from the kernel, or 0. */
uintptr_t vfix_vdso_from_kernel(void);

#endif
