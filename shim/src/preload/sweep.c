/*
 * Changes call sites in private code that is mapped from files, as /proc/self/maps lists it (proc(5)). A page of code
 * never becomes writable: its copy, with the changed byte, replaces it at once (mremap), so there is no lock that a
 * killed thread could hold. Each such page is a mapping of its own from then on, and the number of mappings is
 * limited, so generated code is left as it is. Memory that other processes share is never written.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include "preload.h"

#define LARGEST (1ul << 30)	/* bytes of a mapping; libraries are smaller */
#define PIECE 65536		/* bytes that are copied at once if other threads run */

struct mapping {
	uintptr_t start, end;
	int writable, file;
};

/* Replaces a page by a copy in which one byte differs. 1 if it was. */
static int replace(uintptr_t at, unsigned char byte)
{
	uintptr_t page = at & -PAGE_BYTES;
	long copy = syscall6(SYS_mmap, 0, PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (copy < 0 && copy > -(long)PAGE_BYTES)
		return 0;
	for (size_t i = 0; i < PAGE_BYTES / sizeof(uint64_t); i++)
		((volatile uint64_t *)copy)[i] = ((volatile uint64_t *)page)[i];
	((volatile unsigned char *)copy)[at - page] = byte;
	if (!syscall3(SYS_mprotect, copy, PAGE_BYTES, PROT_READ | PROT_EXEC) &&
	    (uintptr_t)syscall5(SYS_mremap, copy, PAGE_BYTES, PAGE_BYTES, MREMAP_MAYMOVE | MREMAP_FIXED, (long)page) == page)
		return 1;
	syscall3(SYS_munmap, copy, PAGE_BYTES, 0);
	return 0;
}

static void change(uintptr_t site, int writable)
{
	unsigned char top = (unsigned char)(vfix_page() >> 24);

	if (writable)
		*(volatile unsigned char *)(site + SITE_TOP) = top;
	else if (!replace(site + SITE_TOP, top))
		return;
	vfix_say(site, "changed");
}

/* Eight bytes are compared at once with the third byte of the page's address, which is rare in code. */
const unsigned char *vfix_find(const unsigned char *code, const unsigned char *end)
{
	const uint64_t ones = 0x0101010101010101, highs = 0x8080808080808080;
	const unsigned char rare = VFIX_PAGE >> 16 & 0xff;

	for (; code + sizeof(uint64_t) <= end; code += sizeof(uint64_t)) {
		uint64_t word = *(const uint64_t *)code ^ ones * rare;

		if ((word - ones) & ~word & highs)
			break;
	}
	while (code < end && *code != rare)
		code++;
	return code;
}

static void search(const unsigned char *code, size_t bytes, uintptr_t at, int writable)
{
	const unsigned char *end = code + bytes - 1;

	for (const unsigned char *c = code + SITE_TOP - 1; (c = vfix_find(c, end)) < end; c++)
		if (is_site(c - SITE_TOP + 1))
			change(at + (uintptr_t)(c - SITE_TOP + 1 - code), writable);
}

void vfix_search(const unsigned char *code, size_t bytes)
{
	search(code, bytes, (uintptr_t)code, 0);
}

/* Another thread may unmap the code while it is read, so the kernel copies it. */
static void search_copies(const struct mapping *m)
{
	long piece = syscall6(SYS_mmap, 0, PIECE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (piece < 0 && piece > -(long)PAGE_BYTES)
		return;
	for (uintptr_t at = m->start; at + SITE_BYTES < m->end; at += PIECE - SITE_BYTES + 1) {
		struct { uintptr_t start, bytes; } here = { (uintptr_t)piece, PIECE }, there = { at, m->end - at < PIECE ? m->end - at : PIECE };
		long n = syscall6(SYS_process_vm_readv, syscall0(SYS_getpid), (long)&here, 1, (long)&there, 1, 0);

		if (n == -EPERM || n == -ENOSYS) {	/* a container's filter; such a race is rare */
			search((const unsigned char *)m->start, m->end - m->start, m->start, m->writable);
			break;
		}
		if (n < 2 * SITE_BYTES)
			break;
		search((const unsigned char *)piece, (size_t)n, at, m->writable);
	}
	syscall3(SYS_munmap, piece, PIECE, 0);
}

/* A line of the list: "START-END rwxp OFFSET DEV INODE   PATH". 1 if it is private code. */
static int parse(const char *line, struct mapping *m)
{
	uintptr_t *number = &m->start;

	m->start = m->end = 0;
	for (; *line != ' '; line++)
		if (*line == '-')
			number = &m->end;
		else
			*number = *number << 4 | (unsigned)(*line <= '9' ? *line - '0' : *line - 'a' + 10);
	m->writable = line[2] == 'w';
	m->file = 0;
	int private_code = line[1] == 'r' && line[3] == 'x' && line[4] == 'p';
	while (*line && !m->file)
		m->file = *line++ == '/';
	return private_code && m->end - m->start < LARGEST;
}

/* A library that was loaded later is searched at its first call. A page that replaced one of a file is a mapping of
 * its own. */
static void visit(const struct mapping *m, uintptr_t site, int alone)
{
	if (site && site - m->start >= m->end - m->start)
		return;
	if (m->file && alone)
		search((const unsigned char *)m->start, m->end - m->start, m->start, m->writable);
	else if (m->file)
		search_copies(m);
	else if (site && (m->writable || m->end - m->start == PAGE_BYTES))
		change(site, m->writable);
}

void vfix_sweep(uintptr_t site, int alone)
{
	char piece[512], line[80];	/* only the beginning of a line counts; the stack may be a small one */
	long n, maps = vfix_page() ? syscall3(SYS_open, (long)"/proc/self/maps", O_RDONLY | O_CLOEXEC, 0) : -1;
	struct mapping m;
	size_t length = 0;

	if (maps < 0)
		return;
	while ((n = syscall3(SYS_read, maps, (long)piece, sizeof piece)) > 0)
		for (long i = 0; i < n; i++) {
			if (piece[i] != '\n') {
				if (length < sizeof line - 1)
					line[length++] = piece[i];
				continue;
			}
			line[length] = 0;
			length = 0;
			if (parse(line, &m))
				visit(&m, site, alone);
		}
	syscall1(SYS_close, maps);
}

void vfix_say(uintptr_t address, const char *what)
{
	char line[64] = "vfix: 0x";
	size_t n = sizeof "vfix: 0x" - 1;

	if (!vfix_logs)
		return;
	for (int shift = 44; shift >= 0; shift -= 4)
		line[n++] = "0123456789abcdef"[address >> shift & 15];
	line[n++] = ':';
	line[n++] = ' ';
	while (*what)
		line[n++] = *what++;
	line[n++] = '\n';
	syscall3(SYS_write, 2, (long)line, (long)n);
}
