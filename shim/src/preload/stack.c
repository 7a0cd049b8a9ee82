/*
 * Alternate stacks that were large enough when the program was written: a signal's frame has the vector
 * registers, more than 3 KiB with AVX-512. The kernel accepts such a stack and kills the program at the
 * first signal, which would not occur without the library. The program gets a larger stack.
 */
#include <errno.h>
#include <sys/mman.h>
#include "preload.h"

/* A size that no program uses, which identifies a stack of the library. */
#define OWN_SIZE (65536 + 48)

#define SMALL 16384	/* bytes; a larger stack is accepted unchecked */
#define REST 3072	/* bytes of the frame besides those registers, and of handlers */

static void cpuid(unsigned leaf, unsigned sub, unsigned r[4])
{
	__asm__ volatile ("cpuid" : "=a"(r[0]), "=b"(r[1]), "=c"(r[2]), "=d"(r[3]) : "a"(leaf), "c"(sub));
}

/*
 * Bytes of the registers in a frame (SDM: CPUID leaf 0xd, XCR0). It omits registers that a program has to
 * request from the kernel, AMX's tiles: such programs are newer than AT_MINSIGSTKSZ.
 */
static unsigned register_bytes(void)
{
	unsigned r[4], enabled, high, bytes = 512;

	cpuid(1, 0, r);
	if (!(r[2] & 1 << 27)) /* OSXSAVE */
		return bytes;
	__asm__ volatile ("xgetbv" : "=a"(enabled), "=d"(high) : "c"(0));
	for (unsigned i = 2; i < 32; i++)
		if (enabled >> i & 1) {
			cpuid(0xd, i, r);
			if (!(r[2] & 4) && r[0] + r[1] > bytes) /* not by XFD; size, offset */
				bytes = r[0] + r[1];
		}
	return bytes;
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
	/* A stack that a program will restore was returned to it, and must stay. */
	if (!ret && new && before.ss_size == OWN_SIZE && before.ss_sp != new->ss_sp && !old)
		syscall3(SYS_munmap, (long)before.ss_sp, OWN_SIZE, 0);
	if (!ret && old)
		*old = before;
	return vfix_fail(ret);
}
