/*
 * Whether Go's linker made the program of a task. Go 1.0 calls the page with 128 bytes of stack left, of
 * which the vDSO needs some: its sites make the system call. The program is recognized by the names of its
 * sections, anywhere in the last kilobytes of the file's headers.
 */
#include <elf.h>
#include <string.h>
#include <unistd.h>
#include "trace.h"

#define NAMES_MAX 16384	/* bytes of the section names that are read */

/* Go 1.0 has the first two; later versions have one of the others, or both. */
static const char *const names[] = { ".gosymtab", ".gopclntab", ".go.buildinfo", ".note.go.buildid" };

/* Reads the section names into text; returns their size in bytes, 0 if the file has none. */
static size_t section_names(int fd, char text[NAMES_MAX])
{
	Elf64_Ehdr header;
	Elf64_Shdr section;
	ssize_t n;

	if (pread(fd, &header, sizeof header, 0) != sizeof header ||
	    memcmp(header.e_ident, ELFMAG, SELFMAG) || header.e_shoff == 0 ||
	    header.e_shentsize != sizeof section || header.e_shstrndx >= header.e_shnum)
		return 0;
	if (header.e_shoff > INT64_MAX - (uint64_t)header.e_shstrndx * sizeof section)
		return 0;
	if (pread(fd, &section, sizeof section,
		  (off_t)(header.e_shoff + (uint64_t)header.e_shstrndx * sizeof section)) != sizeof section ||
	    section.sh_offset > INT64_MAX)
		return 0;
	n = pread(fd, text, section.sh_size < NAMES_MAX ? section.sh_size : NAMES_MAX, (off_t)section.sh_offset);
	return n < 0 ? 0 : (size_t)n;
}

int proc_is_go(pid_t tid)
{
	static char text[NAMES_MAX];
	int fd = proc_fd(tid, "exe");

	if (fd < 0)
		return 1; /* not known: the form for Go is correct for all */
	size_t n = section_names(fd, text);
	close(fd);
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (memmem(text, n, names[i], strlen(names[i]) + 1))
			return 1;
	return 0;
}
