/* A program that has just been executed: gives it the stand-in page, and changes its call sites. */
#include <elf.h>
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>
#include "trace.h"

#define CODE_64 0x33	/* the code segment of 64-bit programs (arch/x86/include/asm/segment.h) */
#define STOP_SYSCALL (SIGTRAP | 0x80)	/* PTRACE_O_TRACESYSGOOD */

/* Values that the kernel put on the program's stack (psABI 3.4.1). */
struct vectors {
	uintptr_t headers, count;	/* program headers: AT_PHDR, AT_PHNUM */
	uintptr_t loader, vdso;		/* 0 without one */
};

/* References to the page in a static program. */
struct seen {
	int sites;
	int others;	/* the page's address in another form, or code that executes programs */
};

/* Continues to the next stop at a system call; a SIGSTOP that came meanwhile is noted in *stopped. */
static int advance(pid_t t, int *stopped)
{
	int status;

	for (;;) {
		if (ptrace(PTRACE_SYSCALL, t, 0L, 0L) || waitpid(t, &status, __WALL) < 0 || !WIFSTOPPED(status))
			return 0;
		if (WSTOPSIG(status) == STOP_SYSCALL)
			return 1;
		if (status >> 16)
			continue;
		if (WSTOPSIG(status) != SIGSTOP)
			return 0;
		*stopped = 1;
	}
}

/* Makes a system call at the program's first instruction; returns its result. All signals wait. */
static long inject(pid_t t, const long a[7], int *stopped)
{
	struct user_regs_struct before, r;
	uint64_t word, mask, all = ~0ull;
	long result = -ESRCH;

	if (ptrace(PTRACE_GETREGS, t, 0L, &before) || !read_word(t, before.rip, &word) || ptrace(PTRACE_GETSIGMASK, t, 8L, &mask))
		return -ESRCH;
	ptrace(PTRACE_SETSIGMASK, t, 8L, &all);
	r = before;
	r.orig_rax = ~0ul;	/* not in a system call: nothing to restart */
	r.rax = (unsigned long)a[0], r.rdi = (unsigned long)a[1], r.rsi = (unsigned long)a[2], r.rdx = (unsigned long)a[3];
	r.r10 = (unsigned long)a[4], r.r8 = (unsigned long)a[5], r.r9 = (unsigned long)a[6];
	if (write_word(t, before.rip, (word & ~0xfffful) | 0x050f) &&	/* syscall */
	    !ptrace(PTRACE_SETREGS, t, 0L, &r) && advance(t, stopped) && advance(t, stopped) && !ptrace(PTRACE_GETREGS, t, 0L, &r))
		result = (long)r.rax;
	write_word(t, before.rip, word);
	before.orig_rax = ~0ul;
	ptrace(PTRACE_SETREGS, t, 0L, &before);
	ptrace(PTRACE_SETSIGMASK, t, 8L, &mask);
	return result;
}

/* Maps a page of code; 0 if the address is in use. */
static uintptr_t map(pid_t t, uintptr_t at, int *stopped)
{
	const int flags = MAP_PRIVATE | MAP_ANONYMOUS | (at ? MAP_NOREPLACE : 0);
	long got = inject(t, (const long[7]){ SYS_mmap, (long)at, PAGE_BYTES, PROT_READ | PROT_EXEC, flags, -1, 0 }, stopped);

	if (got > 0 && at && (uintptr_t)got != at)
		inject(t, (const long[7]){ SYS_munmap, got, PAGE_BYTES }, stopped);
	return got > 0 && (!at || (uintptr_t)got == at) ? (uintptr_t)got : 0;
}

/* Writes words to a fresh page, which is zero. */
static void fill(pid_t t, uintptr_t to, const void *from, size_t bytes)
{
	uint64_t word;

	for (size_t i = 0; i < bytes; i += sizeof word) {
		memcpy(&word, (const char *)from + i, sizeof word);
		if (word)
			write_word(t, to + i, word);
	}
}

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

static int has_entry(const unsigned char *word)
{
	uint64_t address;

	memcpy(&address, word, sizeof address);
	return entry_at(address) >= 0;
}

static int has_immediate(const unsigned char *operand)
{
	int32_t address;

	memcpy(&address, operand, sizeof address);
	return entry_at((uintptr_t)(intptr_t)address) >= 0;
}

static void change(pid_t t, uintptr_t site, unsigned char top, struct seen *s)
{
	uintptr_t byte = site + SITE_TOP;
	uint64_t word;

	if (!read_word(t, byte & -8ul, &word))
		return;
	((unsigned char *)&word)[byte & 7] = top;
	s->sites += write_word(t, byte & -8ul, word);
	say(t, site, "changed at exec");
}

/* Looks at a segment of the program: at code, or at data, which only has words. */
static void search(pid_t t, uintptr_t at, uintptr_t end, int is_code, unsigned char top, struct seen *s)
{
	static const unsigned char execve_number[] = { 0xb8, SYS_execve, 0, 0, 0 };	/* mov $59, %eax */
	static unsigned char piece[(1 << 16) + 8];
	const size_t most = sizeof piece - 8;
	const unsigned char rare = VFIX_PAGE >> 16 & 0xff;

	for (; at + SITE_BYTES <= end; at += most - SITE_BYTES + 1) {
		size_t n = end - at < most ? end - at : most;
		unsigned char *last = piece + n - 1;

		memset(piece + n, 0, 8);
		if (!read_memory(t, at, piece, n))
			return;
		s->others |= is_code && memmem(piece, n, execve_number, sizeof execve_number);
		for (unsigned char *p = piece + SITE_TOP - 1; (p = memchr(p, rare, (size_t)(last - p))); p++) {
			unsigned char *site = p - (SITE_TOP - 1);

			if (is_code && is_site(site))
				change(t, at + (uintptr_t)(site - piece), top, s);
			else
				s->others |= is_code ? has_immediate(p - 2) : has_entry(p - 2);
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

/* The addresses of the functions in the task's vDSO, which is this process's at another address; stubs for missing
 * ones. */
static int find_functions(pid_t t, const struct vectors *v, uintptr_t target[VFIX_FUNCTIONS], int *stopped)
{
	uintptr_t own = getauxval(AT_SYSINFO_EHDR), stubs = 0;
	struct vfix_state found = { 0 };
	int in_vdso = v->vdso && vfix_vdso_lookup(own, &found) == VFIX_FUNCTIONS && !is_go(t);

	if (!in_vdso) {
		stubs = map(t, 0, stopped);
		if (!stubs)
			return 0;
		fill(t, stubs, vfix_stubs, VFIX_FUNCTIONS * STUB_BYTES);
	}
	for (int i = 0; i < VFIX_FUNCTIONS; i++)
		target[i] = in_vdso ? found.plain[i] - own + v->vdso : stubs + (uintptr_t)i * STUB_BYTES;
	return 1;
}

/* Returns the stand-in's address, or 0. */
static uintptr_t make_page(pid_t t, const struct vectors *v, int *stopped)
{
	uintptr_t target[VFIX_FUNCTIONS], at = 0;

	if (!find_functions(t, v, target, stopped))
		return 0;
	for (size_t i = 0; i < sizeof stand_in_tops && !at; i++)
		at = map(t, stand_in_at(stand_in_tops[i]), stopped);
	if (at) {
		fill(t, at, vfix_stand_in, STAND_IN_BYTES);
		fill(t, at + SLOTS, target, sizeof target);
	}
	return at;
}

/* The task waits for the end of this process, its child, before its first instruction: so nothing is left that
 * another process would have to wait for. All registers except rsp are zero there (ELF_PLAT_INIT). */
static int leave(pid_t t, pid_t tracer, int *stopped)
{
	static const unsigned char wait[0x28] = {
		0xb8, SYS_wait4, 0, 0, 0,		/* mov $61, %eax */
		0x48, 0x8b, 0x3d, 0x2c, 0, 0, 0,	/* mov 0x38, %rdi: the tracer */
		0xba, 0, 0, 0, 0x40,			/* mov $__WALL, %edx */
		0x0f, 0x05,				/* syscall */
		0x31, 0xc0, 0x31, 0xff, 0x31, 0xd2, 0x31, 0xc9, 0x45, 0x31, 0xdb,	/* xor: eax, edi, edx, ecx, r11d */
		0xff, 0x25, 0x1c, 0, 0, 0,		/* jmp *0x40: the program */
	};
	struct user_regs_struct r;
	uintptr_t page = map(t, 0, stopped);
	uint64_t words[2] = { (uint64_t)tracer };

	if (!page || ptrace(PTRACE_GETREGS, t, 0L, &r))
		return 0;
	words[1] = r.rip;
	fill(t, page, wait, sizeof wait);
	fill(t, page + 0x38, words, sizeof words);
	r.rip = page;
	r.orig_rax = ~0ul;
	return !ptrace(PTRACE_SETREGS, t, 0L, &r);
}

int prepare(pid_t t, pid_t tracer)
{
	struct user_regs_struct r;
	struct vectors v;
	struct seen seen = { 0 };
	uintptr_t page = 0;
	int stopped = 0, left = 0;

	if (!advance(t, &stopped) || ptrace(PTRACE_GETREGS, t, 0L, &r))
		return 0;
	if (r.cs == CODE_64 && find_vectors(t, r.rsp, &v))
		page = make_page(t, &v, &stopped);
	if (page && heals && v.headers && !v.loader) {
		search_program(t, &v, (unsigned char)(page >> 24), &seen);
		left = tracer && seen.sites && !seen.others && leave(t, tracer, &stopped);
	}
	if (stopped)
		syscall(SYS_tgkill, t, t, SIGSTOP);
	return left;
}
