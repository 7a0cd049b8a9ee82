/*
 * Alternate stacks that were large enough when the program was written: a signal's frame holds
 * the vector registers, and has more than 3 KiB with AVX-512. The kernel
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

static void cpuid(unsigned leaf, unsigned sub, unsigned r[4])
{
	__asm__ volatile ("cpuid" : "=a"(r[0]), "=b"(r[1]), "=c"(r[2]), "=d"(r[3]) : "a"(leaf), "c"(sub));
}

/*
 * Bytes of the registers in a frame (SDM: CPUID leaf 0xd, XCR0). Those that a program has to ask the kernel
 * for, AMX's tiles, are not in it: programs that ask came later than AT_MINSIGSTKSZ.
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
	/* One that a program goes back to it has asked for, and it must stay. */
	if (!ret && new && before.ss_size == OWN_SIZE && before.ss_sp != new->ss_sp && !old)
		syscall3(SYS_munmap, (long)before.ss_sp, OWN_SIZE, 0);
	if (!ret && old)
		*old = before;
	return vfix_fail(ret);
}
