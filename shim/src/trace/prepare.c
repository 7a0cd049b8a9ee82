/* A program that has just been executed: gives it the stand-in page, and changes its call sites. */
#include <elf.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include "trace.h"

#define CODE_64 0x33	/* the code segment of 64-bit programs (arch/x86/include/asm/segment.h) */
#define EXECUTABLE (PROT_READ | PROT_EXEC)

/* Values that the kernel put on the program's stack (psABI 3.4.1). */
struct vectors {
	uintptr_t headers, count;	/* program headers: AT_PHDR, AT_PHNUM */
	uintptr_t loader, vdso;		/* 0 without one */
};

static int find_vectors(pid_t t, uintptr_t stack, struct vectors *v)
{
	uintptr_t at = stack + sizeof(uint64_t);
	uint64_t word[2];

	*v = (struct vectors){ 0 };
	for (int nulls = 0; nulls < 2; at += sizeof *word) {	/* the arguments, then the environment */
		if (!read_memory(t, at, word, sizeof *word))
			return 0;
		nulls += !word[0];
	}
	for (; read_memory(t, at, word, sizeof word) && word[0] != AT_NULL; at += sizeof word) {
		if (word[0] == AT_PHDR)
			v->headers = word[1];
		else if (word[0] == AT_PHNUM)
			v->count = word[1];
		else if (word[0] == AT_BASE)
			v->loader = word[1];
		else if (word[0] == AT_SYSINFO_EHDR)
			v->vdso = word[1];
	}
	return 1;
}

/* Returns the stand-in's address, or 0. The task's vDSO is this process's at another address. */
static uintptr_t make_page(pid_t t, uintptr_t vdso, int uses_stubs)
{
	uintptr_t target[VFIX_FUNCTIONS], own = getauxval(AT_SYSINFO_EHDR), stubs = 0;
	struct vfix_state found;

	if (vfix_vdso_lookup(own, &found) < VFIX_FUNCTIONS || !vdso || uses_stubs) {
		stubs = vfix_map(t, 0, EXECUTABLE);
		if (!stubs)
			return 0;
		vfix_fill(t, stubs, vfix_stubs, VFIX_FUNCTIONS * STUB_BYTES);
	}
	for (int i = 0; i < VFIX_FUNCTIONS; i++)
		target[i] = stubs ? stubs + (uintptr_t)i * STUB_BYTES : found.plain[i] - own + vdso;
	return vfix_map_stand_in(t, EXECUTABLE, target);
}

/* What a static program refers to. */
struct seen {
	int sites;
	int others;	/* the page in another form, or it may execute programs */
};

/* Whether a libc's execve is in the code: `mov $59, %eax` as in glibc and musl, or `mov $59, %al; jmp` as in dietlibc. */
static int has_execve(const unsigned char *code, size_t bytes)
{
	const unsigned char *last = code + bytes - sizeof(uint32_t);

	for (const unsigned char *p = code + 1; p < last && (p = memchr(p, SYS_execve, (size_t)(last - p))); p++) {
		int common = p[-1] == 0xb8 && !p[1] && !p[2] && !p[3];
		int diet = p[-1] == 0xb0 && p[1] == 0xe9;

		if (common || diet)
			return 1;
	}
	return 0;
}

#define OVERLAP 7	/* bytes: a site or a pointer that begins in one piece is whole in this one or the next */

/* Changes the sites in a segment of the program. */
static void search(pid_t t, uintptr_t at, uintptr_t end, int is_code, unsigned char top, struct seen *s)
{
	static unsigned char piece[1 << 16];

	for (; at + SITE_BYTES <= end; at += sizeof piece - OVERLAP) {
		size_t n = end - at < sizeof piece ? end - at : sizeof piece;
		const unsigned char *last = piece + n;

		if (!read_memory(t, at, piece, n))
			return;
		s->others = s->others || (is_code && has_execve(piece, n));
		for (const unsigned char *p = piece; (p = vfix_find(p, last)) < last; p++) {
			uintptr_t site = at + (uintptr_t)(p - piece) - SITE_OPERAND;

			if (!is_code) {
				s->others |= last - p >= 8 && is_pointer(p);
			} else if (p - piece >= SITE_OPERAND && is_site(p - SITE_OPERAND)) {
				s->sites += write_byte(t, site + SITE_TOP, top);
				say(t, site, "changed at exec");
			} else {
				s->others = 1;
			}
		}
	}
}

/* Changes the sites of a static program. */
static void search_program(pid_t t, const struct vectors *v, unsigned char top, struct seen *s)
{
	Elf64_Phdr p[64];
	uintptr_t bias = 0;

	if (v->count > sizeof p / sizeof *p || !read_memory(t, v->headers, p, v->count * sizeof *p))
		return;
	for (size_t i = 0; i < v->count; i++)
		if (p[i].p_type == PT_PHDR)
			bias = v->headers - p[i].p_vaddr;
	for (size_t i = 0; i < v->count; i++)
		if (p[i].p_type == PT_LOAD)
			search(t, bias + p[i].p_vaddr, bias + p[i].p_vaddr + p[i].p_filesz, p[i].p_flags & PF_X, top, s);
}

/* The task waits for the end of this process, its child, before its first instruction: so nothing is left that
 * another process would have to wait for. All registers except rsp are zero there (ELF_PLAT_INIT). */
static int leave(pid_t t)
{
	static const unsigned char wait[0x28] = {
		0xb8, SYS_wait4, 0, 0, 0,		/* mov $61, %eax */
		0x48, 0x83, 0xcf, 0xff,			/* or $-1, %rdi: any child */
		0xba, 0, 0, 0, 0x80,			/* mov $__WCLONE, %edx: that sends no SIGCHLD */
		0x0f, 0x05,				/* syscall */
		0x31, 0xc0, 0x31, 0xff, 0x31, 0xd2, 0x31, 0xc9, 0x45, 0x31, 0xdb,	/* xor: eax, edi, edx, ecx, r11d */
		0xff, 0x25, 0x07, 0, 0, 0,		/* jmp *0x28: the program */
	};
	struct user_regs_struct r;
	uintptr_t page = vfix_map(t, 0, EXECUTABLE);

	if (!page || ptrace(PTRACE_GETREGS, t, 0L, &r))
		return 0;
	vfix_fill(t, page, wait, sizeof wait);
	vfix_fill(t, page + sizeof wait, &r.rip, sizeof r.rip);
	r.rip = page;
	r.orig_rax = ~0ul;
	return !ptrace(PTRACE_SETREGS, t, 0L, &r);
}

int prepare(pid_t t, int may_leave)
{
	struct user_regs_struct r;
	struct vectors v;
	struct seen seen = { 0 };
	uintptr_t page = 0;
	int left = 0;

	if (!advance(t) || ptrace(PTRACE_GETREGS, t, 0L, &r))
		return 0;
	if (r.cs == CODE_64 && find_vectors(t, r.rsp, &v)) {
		seen.others = is_go(t);
		page = make_page(t, v.vdso, seen.others);
	}
	if (page && heals && v.headers && !v.loader) {
		search_program(t, &v, (unsigned char)(page >> 24), &seen);
		left = may_leave && seen.sites && !seen.others && leave(t);
	}
	ptrace(PTRACE_INTERRUPT, t, 0L, 0L);	/* a SIGSTOP that came meanwhile has its effect now */
	return left;
}
