/*
 * Alternate stacks that were large enough when the program was written: a signal's frame holds
 * the vector registers, and has more than 3 KiB with AVX-512, more than 11 with AMX. The kernel
 * takes such a stack and kills at the first signal; without the library there would be none.
 * The program gets a larger one.
 */
#include <errno.h>
#include <sys/mman.h>
#include "preload.h"

/* A size that no program asks for, by which a stack of the library is known. */
#define OWN_SIZE (65536 + 48)

#define SMALL 16384	/* bytes; what is larger is taken without a question */
#define REST 3072	/* bytes of the frame besides those registers, and of handlers */

/* Bytes of the registers in a frame (SDM: CPUID leaf 0xd: EBX). */
static unsigned register_bytes(void)
{
	unsigned a = 0xd, b, c = 0, d;

	__asm__ volatile ("cpuid" : "+a"(a), "=b"(b), "+c"(c), "=d"(d));
	return b;
}

static int is_too_small(const stack_t *s)
{
	return !(s->ss_flags & SS_DISABLE) && s->ss_size >= MINSIGSTKSZ && s->ss_size < SMALL &&
		s->ss_size < register_bytes() + REST;
}

VFIX_PUBLIC int sigaltstack(const stack_t *restrict new, stack_t *restrict old)
{
	stack_t before = { 0 }, own;
	long memory = -1, ret;

	if (new && is_too_small(new)) {
		memory = syscall6(SYS_mmap, 0, OWN_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
		own.ss_flags = new->ss_flags;
		own.ss_size = OWN_SIZE;
		own.ss_sp = (void *)memory;
	}
	int replaced = memory > 0 || memory < -PAGE_SIZE;
	ret = syscall3(SYS_sigaltstack, replaced ? (long)&own : (long)new, (long)&before, 0);
	if (ret && replaced)
		syscall3(SYS_munmap, memory, OWN_SIZE, 0);
	/* One that a program goes back to it has asked for, and it must stay. */
	if (!ret && new && before.ss_size == OWN_SIZE && before.ss_sp != new->ss_sp && !old)
		syscall3(SYS_munmap, (long)before.ss_sp, OWN_SIZE, 0);
	if (!ret && old)
		*old = before;
	return vfix_fail(ret);
}
