/*
 * The auxiliary vector: after the arguments of an initializer, or from the kernel. This code may run before
 * relocation, and before thread-local storage exists.
 */
#include <elf.h>
#include <fcntl.h>
#include "auxv.h"
#include "syscall.h"

#define PR_GET_AUXV 0x41555856	/* Linux 6.4: include/uapi/linux/prctl.h */
#define MAX_ARGC (1 << 24)	/* above what any kernel passes (MAX_ARG_STRINGS is not reached) */

/* 64 entries: the kernel's own vector is shorter (AT_VECTOR_SIZE). */
#define AUXV_ENTRIES 64

const struct vfix_auxv *vfix_auxv_behind(char **envp)
{
	while (*envp)
		envp++;
	return (const void *)(envp + 1);
}

/* After unsetenv, the first NULL may come too early, and an empty vector seems to follow. */
const struct vfix_auxv *vfix_auxv_of_init(int argc, char **argv, char **envp)
{
	uintptr_t words = (uintptr_t)argv;

	if (argc <= 0 || argc >= MAX_ARGC || words % sizeof(char *) != 0 ||
	    (uintptr_t)envp != words + ((uintptr_t)argc + 1) * sizeof(char *))
		return 0;
	const struct vfix_auxv *auxv = vfix_auxv_behind(envp);
	return auxv->type == AT_NULL ? 0 : auxv;
}

/* Calls prctl first, and reads /proc if the kernel is older than Linux 6.4. */
uintptr_t vfix_vdso_from_kernel(void)
{
	struct vfix_auxv auxv[AUXV_ENTRIES + 1];
	long n = syscall5(SYS_prctl, PR_GET_AUXV, (long)auxv, sizeof auxv - sizeof *auxv, 0, 0);

	if (n <= 0) {
		long fd = syscall3(SYS_open, (long)"/proc/self/auxv", O_RDONLY | O_CLOEXEC, 0);

		if (fd < 0)
			return 0;
		n = syscall3(SYS_read, fd, (long)auxv, sizeof auxv - sizeof *auxv);
		syscall1(SYS_close, fd);
		if (n <= 0)
			return 0;
	}
	if ((unsigned long)n > sizeof auxv - sizeof *auxv)
		n = sizeof auxv - sizeof *auxv;
	auxv[n / sizeof *auxv].type = AT_NULL;
	return vfix_vdso_base(auxv);
}
