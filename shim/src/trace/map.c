/*
 * The pages of trampolines in a task's memory: the code that the rewriter also injects into files, and
 * after it the state page with the vDSO's addresses. Both are R-X from the start, and written by the
 * tracer, so no memory is ever writable and executable.
 */
#include <elf.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include "trace.h"

#define PAGE 4096
#define VDSO_MAX (8 * PAGE)

/* An operand of 32 bits reaches the low 2 GiB. The space below all programs (they are linked at 4 MiB) is
 * unused; the end of the 2 GiB may be in use for brk and shared memory. */
#define BELOW_PROGRAMS 0x3f0000L
#define BELOW_STEP 0x10000L
#define HIGHEST 0x7fff0000L
#define STEP 0x100000L
#define TRIES 16	/* of each */

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000	/* Linux 4.17; before it, the address is only a hint */
#endif

/* The tracer's own vDSO. The kernel uses one image for all 64-bit tasks. */
struct image {
	uintptr_t base;
	size_t size;
	struct vfix_state state;
	uintptr_t syscall;	/* a syscall instruction in it, or 0 */
	uintptr_t ret;		/* and a return instruction */
};

static const struct image *own_vdso(void)
{
	static struct image i;

	if (i.base || !(i.base = getauxval(AT_SYSINFO_EHDR)))
		return &i;
	const Elf64_Ehdr *header = (const void *)i.base;
	const Elf64_Phdr *p = (const void *)(i.base + header->e_phoff);

	for (int n = 0; n < header->e_phnum; n++, p++)
		if (p->p_type == PT_LOAD)
			i.size = p->p_offset + p->p_filesz;
	for (size_t at = 0; at + 2 <= i.size && !i.syscall; at++)
		if (!memcmp((const char *)i.base + at, "\x0f\x05", 2))
			i.syscall = i.base + at;
	const void *ret = memchr((const void *)i.base, 0xc3, i.size);
	i.ret = (uintptr_t)ret;
	vfix_vdso_lookup(i.base, &i.state);
	return &i;
}

/* Whether the task has the same image at base. Its memory is compared, never parsed. */
static int has_same_vdso(pid_t tid, uintptr_t base)
{
	static char theirs[VDSO_MAX];
	const struct image *own = own_vdso();

	return base && own->syscall && own->size <= sizeof theirs && memory_read(tid, base, theirs, own->size) &&
		!memcmp(theirs, (const void *)own->base, own->size);
}

uintptr_t vdso_syscall(const struct space *space)
{
	const struct image *own = own_vdso();

	return space->vdso && own->syscall ? own->syscall - own->base + space->vdso : 0;
}

uintptr_t vdso_return(const struct space *space)
{
	const struct image *own = own_vdso();

	return space->vdso && own->ret ? own->ret - own->base + space->vdso : 0;
}

/* Two pages in the task's low 2 GiB, or 0. */
static uintptr_t map_low(struct task *t, uintptr_t instruction)
{
	const long flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE;

	for (int i = 0; i < 2 * TRIES; i++) {
		long wish = i < TRIES ? BELOW_PROGRAMS - i * BELOW_STEP : HIGHEST - (i - TRIES) * STEP;
		long got = inject(t, instruction, (const long[7]){
			SYS_mmap, wish, TRAMPOLINE_BYTES, PROT_READ | PROT_EXEC, flags, -1, 0 });

		if (got > 0 && got <= HIGHEST)
			return (uintptr_t)got;
		if (got > 0)
			inject(t, instruction, (const long[7]){ SYS_munmap, got, TRAMPOLINE_BYTES });
	}
	return 0;
}

static int fill(struct task *t, uintptr_t code)
{
	const struct image *own = own_vdso();
	struct vfix_state state = own->state;

	for (int i = 0; i < VFIX_FUNCTIONS; i++) {
		state.plain[i] += state.plain[i] ? t->space->vdso - own->base : 0;
		state.exact[i] += state.exact[i] ? t->space->vdso - own->base : 0;
	}
	return vfix_put_trampolines(t, code, &state);
}

int map_trampolines(struct task *t)
{
	struct space *space = t->space;

	if (space->state == UNTRIED) {
		/* A filter that is the program's own may kill for mmap. */
		int may_map = !proc_is_sandboxed(t->tid) && has_same_vdso(t->tid, space->vdso);
		uintptr_t code = may_map ? map_low(t, vdso_syscall(space)) : 0;

		space->code = code;
		space->is_go = proc_is_go(t->tid);
		space->state = code && fill(t, code) ? MAPPED : is_gone(t) ? UNTRIED : REFUSED;
	}
	return space->state == MAPPED;
}

int vfix_is_stub(struct task *t, uintptr_t address)
{
	return t->space->state == MAPPED && vfix_is_trampoline(t->space->code, address);
}

uintptr_t trampoline(const struct space *space, int function)
{
	return vfix_trampoline(space->code, function, space->is_go ? SYSCALL : EXACT);
}
