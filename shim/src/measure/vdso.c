/* The vDSO of this process: its symbols, and its bytes for callers that read more of it. The
 * kernel made it, so it is trusted here. */
#include <elf.h>
#include <stdint.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>
#include "measure.h"
#include "vdso.h"

struct wanted {
	const char *name;
	void *found;
};

static int take(const char *name, uintptr_t address, void *argument)
{
	struct wanted *w = argument;

	if (!w->found && !strcmp(name, w->name))
		w->found = (void *)address;
	return 0;
}

void *vdso_symbol(const char *name)
{
	struct wanted w = { name, NULL };
	uintptr_t base = getauxval(AT_SYSINFO_EHDR);

	if (base)
		vfix_vdso_each(base, take, &w);
	return w.found;
}

/* Its size including its section headers, which are also in the mapping, after the rest. */
static size_t size_of(const Elf64_Ehdr *header)
{
	const Elf64_Phdr *p = (const void *)((uintptr_t)header + header->e_phoff);
	size_t size = header->e_shoff + (size_t)header->e_shnum * header->e_shentsize;

	for (int i = 0; i < header->e_phnum; i++, p++)
		if (p->p_type == PT_LOAD && size < p->p_offset + p->p_filesz)
			size = p->p_offset + p->p_filesz;
	return size;
}

int dump_vdso(void)
{
	const char *base = (const char *)getauxval(AT_SYSINFO_EHDR);

	if (!base)
		return STATUS_ABSENT;
	for (size_t done = 0, size = size_of((const void *)base); done < size;) {
		ssize_t n = write(STDOUT_FILENO, base + done, size - done);

		if (n <= 0)
			die("standard output", "");
		done += (size_t)n;
	}
	return 0;
}
