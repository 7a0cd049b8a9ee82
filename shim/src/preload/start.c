/*
 * Starts the library once, before the code of other libraries if possible.
 *
 * ld.so calls vfix_init (DT_INIT) before every other initializer unless another library requests this
 * (DF_1_INITFIRST; libpthread before glibc 2.34 does). Then the first library's _init runs before it, and calls
 * __gmon_start__, as every _init of gcc does: the one here.
 */
#include <elf.h>
#include "preload.h"
#include "../auxv.h"
#include "../symbols.h"

extern char **__environ __attribute__((weak));

int vfix_heals = 1, vfix_logs;
static int started;

#define FUNCTION_MOST 96	/* bytes from the start of a function to the end of its call site */

/* The functions of the libc that call the page in glibc up to 2.13; this library needs none of them. */
extern long time(long *) __attribute__((weak));
extern int gettimeofday(void *, void *) __attribute__((weak));
extern int sched_getcpu(void) __attribute__((weak));

/* Changes their sites. In most programs no call faults then, whatever becomes of their signals. */
static void heal_libc(void)
{
	const uintptr_t functions[] = { (uintptr_t)time, (uintptr_t)gettimeofday, (uintptr_t)sched_getcpu };

	for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
		uintptr_t end = functions[i] + FUNCTION_MOST, page = (functions[i] | (PAGE_BYTES - 1)) + 1;

		if (functions[i])	/* the next page may not be mapped */
			vfix_search((const unsigned char *)functions[i], (const unsigned char *)(end < page ? end : page));
	}
}

/* Takes over SIGSEGV with the action that was inherited; returns whether it was blocked. */
static int take_over(void)
{
	struct kernel_action before, inherited = { 0 };
	uint64_t old = 0;

	if (raw_action(SIGSEGV, 0, &before))
		return 0;
	inherited.handler = before.handler;
	vfix_segv_action(&inherited, 0);
	raw_mask(SIG_UNBLOCK, BIT(SIGSEGV), &old);
	if (!(old & BIT(SIGSEGV)))
		return 0;
	raw_mask(SIG_BLOCK, BIT(BLOCKED), 0);
	return 1;
}

/* A program that was started with SIGSEGV blocked may block it again by system calls: no call of it may fault. */
static void start(uintptr_t vdso)
{
	started = 1;
	vfix_vdso = vdso;
	int was_blocked = take_over();

	if (!vfix_heals)
		return;
	if (was_blocked)
		vfix_sweep(0);
	else
		heal_libc();
}

void vfix_start_late(void)
{
	if (!started)
		start(vfix_vdso_from_kernel());
}

const char *vfix_variable(char **envp, const char *name)
{
	for (; envp && *envp; envp++) {
		size_t n = 0;

		while (name[n] && (*envp)[n] == name[n])
			n++;
		if (!name[n])
			return *envp + n;
	}
	return 0;
}

static void read_options(char **envp)
{
	const char *heal = vfix_variable(envp, "VFIX_HEAL="), *log = vfix_variable(envp, "VFIX_LOG=");

	vfix_heals = !heal || !vfix_same(heal, "0");
	vfix_logs = log && vfix_same(log, "1");
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
HIDDEN void vfix_init(int argc, char **argv, char **envp)
{
	const struct vfix_auxv *auxv = vfix_auxv_of_init(argc, argv, envp);

	if (auxv && !is_secure(auxv))
		read_options(envp);
	else if (!auxv)
		read_options(&__environ ? __environ : 0);
	if (!started)
		start(auxv ? vfix_vdso_base(auxv) : vfix_vdso_from_kernel());
}

PUBLIC void __gmon_start__(void)
{
	vfix_start_late();
}
