/* The memory of a stopped task, and its program's file. */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <unistd.h>
#include "trace.h"

#define SMALL 16

/* Word by word: a tracer without CAP_SYS_PTRACE may not do otherwise if the task has another user. And before Linux 5.8
 * process_vm_readv waits while a thread executes a program, which waits for the tracer: no other thread runs when much
 * is read. */
int read_memory(pid_t t, uintptr_t from, void *to, size_t bytes)
{
	struct iovec here = { to, bytes }, there = { (void *)from, bytes };
	uint64_t word;

	if (bytes > SMALL && process_vm_readv(t, &here, 1, &there, 1, 0) == (ssize_t)bytes)
		return 1;
	for (size_t i = 0; i < bytes; i++) {
		uintptr_t at = from + i;

		if ((!i || at % sizeof word == 0) && !read_word(t, at & -sizeof word, &word))
			return 0;
		((unsigned char *)to)[i] = ((unsigned char *)&word)[at % sizeof word];
	}
	return 1;
}

int read_word(pid_t t, uintptr_t at, uint64_t *word)
{
	errno = 0;
	*word = (uint64_t)ptrace(PTRACE_PEEKDATA, t, at, 0L);
	return !errno;
}

int write_word(pid_t t, uintptr_t at, uint64_t word)
{
	return !ptrace(PTRACE_POKEDATA, t, at, word);
}

int write_byte(pid_t t, uintptr_t at, unsigned char byte)
{
	uint64_t word;

	if (!read_word(t, at & -sizeof word, &word))
		return 0;
	((unsigned char *)&word)[at % sizeof word] = byte;
	return write_word(t, at & -sizeof word, word);
}

static int open_proc(pid_t t, const char *name)
{
	char path[48];

	snprintf(path, sizeof path, "/proc/%d/%s", t, name);
	return open(path, O_RDONLY | O_CLOEXEC);
}

/* A line of maps is "START-END rwxp ..." (proc(5)). */
int is_private_code(pid_t t, uintptr_t at)
{
	char line[512], *rest;
	int fd = open_proc(t, "maps"), found = 0, private = 0;
	FILE *maps = fd < 0 ? NULL : fdopen(fd, "r");

	while (maps && !found && fgets(line, sizeof line, maps)) {
		uintptr_t start = strtoul(line, &rest, 16), end = strtoul(rest + 1, &rest, 16);

		found = at - start < end - start;
		private = found && rest[2] == '-' && rest[4] == 'p';
	}
	if (maps)
		fclose(maps);
	return private;
}

/*
 * Whether Go's linker made the program, by the names of its sections: Go 1.0 has .gosymtab and .gopclntab. It calls
 * the page with 128 bytes of stack left, of which the vDSO needs some, so its calls become system calls. A file that
 * cannot be read counts: that is right for every program, only slower.
 */
int is_go(pid_t t)
{
	static char names[16384];
	Elf64_Ehdr header;
	Elf64_Shdr section;
	int fd = open_proc(t, "exe");
	ssize_t n = 0;

	if (fd < 0 || pread(fd, &header, sizeof header, 0) != sizeof header)
		return close(fd), 1;
	off_t at = (off_t)(header.e_shoff + header.e_shstrndx * sizeof section);
	if (header.e_shoff && pread(fd, &section, sizeof section, at) == sizeof section)
		n = pread(fd, names, section.sh_size < sizeof names ? section.sh_size : sizeof names, (off_t)section.sh_offset);
	close(fd);
	return n > 0 && memmem(names, (size_t)n, ".gosymtab", sizeof ".gosymtab");
}

void say(pid_t t, uintptr_t at, const char *what)
{
	if (log_fd >= 0)
		dprintf(log_fd, "vfix-trace: %d: 0x%lx: %s\n", t, at, what);
}
