/*
 * Runs once when a patched file is loaded: finds the vDSO, fills the state page, and seals it. It runs
 * before the file is relocated and may run before thread-local storage exists. After any error, the state
 * stays zero and the trampolines make system calls.
 */
#include <sys/mman.h>
#include "auxv.h"
#include "cgroups.h"
#include "syscall.h"

#define PAGE 4096

/* The page behind this code, by the linker script. */
extern volatile struct vfix_state vfix_state __attribute__((visibility("hidden")));

static void fill(uintptr_t vdso)
{
	struct vfix_state found;
	int hidden = vfix_cgroups_hidden();

	if (!vfix_vdso_lookup(vdso, &found) && !hidden)
		return;
	if (syscall3(SYS_mprotect, (long)&vfix_state, PAGE, PROT_READ | PROT_WRITE))
		return;
	vfix_state = found;
	if (hidden)
		vfix_cgroups_redirect();
	syscall3(SYS_mprotect, (long)&vfix_state, PAGE, PROT_READ);
}

/* Whether a pointer is set: another hook has run before this one. */
static int filled(void)
{
	for (int i = 0; i < VFIX_FUNCTIONS; i++)
		if (vfix_state.plain[i])
			return 1;
	return 0;
}

/* Called by vfix_hook_entry with the stack pointer of e_entry. */
__attribute__((visibility("hidden")))
void vfix_resolve_from_stack(uintptr_t *sp)
{
	if (!filled())
		fill(vfix_vdso_base(vfix_auxv_behind((char **)(sp + 1 + (unsigned)*sp + 1))));
}

/* Called by vfix_hook_init with the initializer's arguments, whatever they are. */
__attribute__((visibility("hidden")))
void vfix_resolve_from_init(int argc, char **argv, char **envp)
{
	if (filled())
		return;
	const struct vfix_auxv *auxv = vfix_auxv_of_init(argc, argv, envp);
	fill(auxv ? vfix_vdso_base(auxv) : vfix_vdso_from_kernel());
}
