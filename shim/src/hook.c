/*
 * What runs once when a patched file is loaded: find the vDSO, fill the state page, seal it.
 * It runs before the file is relocated and may run before thread-local storage exists.
 * Whatever goes wrong, the state stays zero and the trampolines make system calls.
 */
#include <elf.h>
#include <fcntl.h>
#include <sys/mman.h>
#include "syscall.h"
#include "vdso.h"

#define PAGE 4096
#define PR_GET_AUXV 0x41555856	/* Linux 6.4: include/uapi/linux/prctl.h */
#define MAX_ARGC (1 << 24)	/* above what any kernel passes (MAX_ARG_STRINGS is not reached) */

/* 64 entries: the kernel's own vector is shorter (AT_VECTOR_SIZE). */
#define AUXV_ENTRIES 64

/* The page behind this code, by the linker script. */
extern uintptr_t vfix_state[VFIX_FUNCTIONS] __attribute__((visibility("hidden")));

static void fill(uintptr_t vdso)
{
	uintptr_t found[VFIX_FUNCTIONS];

	if (!vdso || !vfix_vdso_lookup(vdso, found))
		return;
	if (syscall3(SYS_mprotect, (long)vfix_state, PAGE, PROT_READ | PROT_WRITE))
		return;
	for (int i = 0; i < VFIX_FUNCTIONS; i++)
		*(volatile uintptr_t *)&vfix_state[i] = found[i];
	syscall3(SYS_mprotect, (long)vfix_state, PAGE, PROT_READ);
}

/* Some pointer is there: a hook has run before this one. */
static int filled(void)
{
	for (int i = 0; i < VFIX_FUNCTIONS; i++)
		if (*(volatile uintptr_t *)&vfix_state[i])
			return 1;
	return 0;
}

/* The vector behind the NULL that ends envp (psABI 3.4.1, figure 3.9). */
static const struct vfix_auxv *behind(char **envp)
{
	while (*envp)
		envp++;
	return (const void *)(envp + 1);
}

/* Called by vfix_hook_entry with the stack pointer of e_entry. */
__attribute__((visibility("hidden")))
void vfix_resolve_from_stack(uintptr_t *sp)
{
	if (!filled())
		fill(vfix_vdso_base(behind((char **)(sp + 1 + (unsigned)*sp + 1))));
}

/* Asks the kernel for the vector: prctl first, /proc where that is older than Linux 6.4. */
static uintptr_t ask_kernel(void)
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

/*
 * Called by vfix_hook_init with the initialiser's arguments, whatever they are.
 * They are glibc's only where they lie as the kernel laid them: after setenv glibc
 * passes a heap copy of envp, and musl passes nothing at all. Checked on the registers
 * before any of them is dereferenced. After unsetenv the first NULL comes too early and an
 * empty vector seems to follow: then the kernel is asked.
 */
__attribute__((visibility("hidden")))
void vfix_resolve_from_init(int argc, char **argv, char **envp)
{
	uintptr_t words = (uintptr_t)argv;

	if (filled())
		return;
	if (argc > 0 && argc < MAX_ARGC && words % sizeof(char *) == 0 &&
	    (uintptr_t)envp == words + ((uintptr_t)argc + 1) * sizeof(char *)) {
		const struct vfix_auxv *auxv = behind(envp);

		if (auxv->type != AT_NULL) {
			fill(vfix_vdso_base(auxv));
			return;
		}
	}
	fill(ask_kernel());
}
