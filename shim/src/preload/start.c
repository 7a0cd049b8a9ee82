/*
 * Starts the library once, before the code of other libraries if possible.
 *
 * ld.so calls vfix_init (DT_INIT) before every other initializer unless another library requests this
 * (DF_1_INITFIRST; libpthread before glibc 2.34 does). Then the first library's _init runs before it, and
 * calls __gmon_start__, as every _init of gcc does: the one here.
 */
#include <elf.h>
#include <sys/mman.h>
#include "mask.h"
#include "../auxv.h"

static int started;

extern char **__environ __attribute__((weak));

static void find(uintptr_t vdso)
{
	if (vfix_vdso_lookup(vdso, &vfix_found.state))
		syscall3(SYS_mprotect, (long)&vfix_found, PAGE_SIZE, PROT_READ);
}

/* Takes over SIGSEGV with the action and mask that were inherited through exec. */
static void take_over(void)
{
	struct kernel_action before;
	struct sigaction inherited = { 0 };
	uint64_t mask = BIT(SIGSEGV), old, stand_in = BIT(VFIX_STAND_IN);

	if (raw_action(SIGSEGV, 0, &before) || before.handler == (uintptr_t)vfix_entry)
		return;
	inherited.sa_handler = (void (*)(int))before.handler;
	vfix_segv_action(&inherited, 0);
	syscall4(SYS_rt_sigprocmask, SIG_UNBLOCK, (long)&mask, (long)&old, sizeof mask);
	if (old & BIT(SIGSEGV))
		syscall4(SYS_rt_sigprocmask, SIG_BLOCK, (long)&stand_in, 0, sizeof mask);
}

void vfix_start(uintptr_t vdso)
{
	if (started)
		return;
	started = 1;
	find(vdso);
	take_over();
	vfix_heal_start();
}

void vfix_start_late(void)
{
	if (!started)
		vfix_start(vfix_vdso_from_kernel());
}

/* Whether the variable is NAME=VALUE; wanted has both. */
static int equals(const char *variable, const char *wanted)
{
	while (*wanted && *variable == *wanted)
		variable++, wanted++;
	return !*wanted && !*variable;
}

static void read_options(char **envp)
{
	for (; envp && *envp; envp++) {
		if (equals(*envp, "VFIX_HEAL=0"))
			vfix_heal_wanted = 0;
		else if (equals(*envp, "VFIX_LOG=1"))
			vfix_log_wanted = 1;
	}
}

/* A program with more rights than its caller must ignore its environment. */
static int is_secure(const struct vfix_auxv *auxv)
{
	for (; auxv->type != AT_NULL; auxv++)
		if (auxv->type == AT_SECURE)
			return auxv->value != 0;
	return 0;
}

/* DT_INIT: glibc passes these arguments, musl none, another ld.so any values. */
VFIX_HIDDEN void vfix_init(int argc, char **argv, char **envp)
{
	const struct vfix_auxv *auxv = vfix_auxv_of_init(argc, argv, envp);

	if (!auxv) {
		vfix_start_late();
		read_options(&__environ ? __environ : 0);
		return;
	}
	vfix_start(vfix_vdso_base(auxv));
	if (!is_secure(auxv))
		read_options(envp);
}

VFIX_PUBLIC void __gmon_start__(void)
{
	vfix_start_late();
}
