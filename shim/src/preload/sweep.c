/*
 * Changes call sites in private code that is mapped from files, as /proc/self/maps lists it (proc(5)). A page of code
 * never becomes writable: its copy, with all of its sites changed, replaces it at once (mremap), so there is no lock
 * that a killed thread could hold. Each such page is a mapping of its own from then on, and the number of mappings is
 * limited, so generated code is left as it is. Memory that other processes share is never written.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sys/mman.h>
#include "preload.h"

#define LARGEST (1ul << 30)	/* bytes of a mapping; libraries are smaller */

struct mapping {
	uintptr_t start, end;
	int writable, file;
};

/* Replaces the page with the site's byte by a copy in which this site and all others are changed. */
static void replace(uintptr_t site)
{
	uintptr_t page = (site + SITE_TOP) & -PAGE_BYTES;
	unsigned char top = (unsigned char)(vfix_page() >> 24);
	uintptr_t map = vfix_map(SELF, 0, PROT_READ | PROT_WRITE);
	unsigned char *copy = (unsigned char *)map;

	if (!map)
		return;
	vfix_fill(SELF, map, (const void *)page, PAGE_BYTES);
	copy[site + SITE_TOP - page] = top;
	vfix_say(site, "changed");
	for (unsigned char *c = copy; c <= copy + PAGE_BYTES - SITE_BYTES; c++)
		if (is_site(c)) {
			c[SITE_TOP] = top;
			vfix_say(page + (uintptr_t)(c - copy), "changed");
		}
	if (vfix_seal(map) &&
	    syscall5(SYS_mremap, (long)map, PAGE_BYTES, PAGE_BYTES, MREMAP_MAYMOVE | MREMAP_FIXED, (long)page) == (long)page)
		return;
	vfix_say(page, "cannot be changed");
	syscall3(SYS_munmap, (long)map, PAGE_BYTES, 0);
}

void vfix_search(const unsigned char *code, const unsigned char *end)
{
	for (const unsigned char *c = code; (c = vfix_find(c, end)) < end; c++)
		if (c - code >= SITE_OPERAND && is_site(c - SITE_OPERAND))
			replace((uintptr_t)c - SITE_OPERAND);
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

/* Changes the site, and in a file's code all sites: the code of the caller stays mapped while it is read. A page that
 * replaced one of a file is a mapping of its own. */
static void change(const struct mapping *m, uintptr_t site)
{
	if (site - m->start >= m->end - m->start)
		return;
	if (m->writable)
		*(volatile unsigned char *)(site + SITE_TOP) = (unsigned char)(vfix_page() >> 24);
	else if (m->file)
		vfix_search((const unsigned char *)m->start, (const unsigned char *)m->end);
	else if (m->end - m->start == PAGE_BYTES)
		replace(site);
}

void vfix_sweep(uintptr_t site)
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
			if (!parse(line, &m))
				continue;
			if (site)
				change(&m, site);
			else if (m.file && !m.writable)
				vfix_search((const unsigned char *)m.start, (const unsigned char *)m.end);
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
