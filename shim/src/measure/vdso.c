/* The vDSO of this process: its symbols, and its bytes for who wants to read more of it. The
 * kernel made it, so it is trusted here. Source: ELF gABI, chapter 5; "GNU hash" of binutils. */
#include <elf.h>
#include <stdint.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>
#include "measure.h"

struct image {
	uintptr_t base, bias;
	size_t size;		/* bytes that are mapped from the first segment on */
	const Elf64_Sym *symbols;
	const char *strings;
	const uint32_t *hash, *gnu_hash;
};

static void read_dynamic(struct image *v, const Elf64_Dyn *d)
{
	for (; d->d_tag != DT_NULL; d++) {
		const void *p = (const void *)(v->bias + d->d_un.d_ptr);

		switch (d->d_tag) {
		case DT_STRTAB: v->strings = p; break;
		case DT_SYMTAB: v->symbols = p; break;
		case DT_HASH: v->hash = p; break;
		case DT_GNU_HASH: v->gnu_hash = p; break;
		}
	}
}

/* Returns 0 where the kernel gave this process no vDSO. */
static int find_image(struct image *v)
{
	const Elf64_Dyn *dynamic = 0;
	int loaded = 0;

	memset(v, 0, sizeof *v);
	v->base = getauxval(AT_SYSINFO_EHDR);
	if (!v->base)
		return 0;
	const Elf64_Ehdr *header = (const void *)v->base;
	const Elf64_Phdr *p = (const void *)(v->base + header->e_phoff);

	/* Its section headers, behind the rest, are in the mapping too. */
	v->size = header->e_shoff + (size_t)header->e_shnum * header->e_shentsize;
	for (int i = 0; i < header->e_phnum; i++, p++) {
		if (p->p_type == PT_LOAD && !loaded) {
			v->bias = v->base + p->p_offset - p->p_vaddr;
			if (v->size < p->p_offset + p->p_filesz)
				v->size = p->p_offset + p->p_filesz;
			loaded = 1;
		} else if (p->p_type == PT_DYNAMIC) {
			dynamic = (const void *)(v->base + p->p_offset);
		}
	}
	if (loaded && dynamic)
		read_dynamic(v, dynamic);
	return v->symbols && v->strings;
}

/* How many symbols there are: DT_HASH says so, the last chain of DT_GNU_HASH ends there. */
static uint32_t count_symbols(const struct image *v)
{
	if (v->hash)
		return v->hash[1];
	if (!v->gnu_hash)
		return 0;
	const uint32_t *bucket = v->gnu_hash + 4 + 2 * v->gnu_hash[2];
	uint32_t buckets = v->gnu_hash[0], first = v->gnu_hash[1], last = 0;
	const uint32_t *chain = bucket + buckets;

	for (uint32_t i = 0; i < buckets; i++)
		if (bucket[i] > last)
			last = bucket[i];
	if (last < first)
		return 0;
	while (!(chain[last - first] & 1))
		last++;
	return last + 1;
}

void *vdso_symbol(const char *name)
{
	struct image v;

	if (!find_image(&v))
		return NULL;
	for (uint32_t i = 0, n = count_symbols(&v); i < n; i++)
		if (v.symbols[i].st_shndx != SHN_UNDEF && !strcmp(v.strings + v.symbols[i].st_name, name))
			return (void *)(v.bias + v.symbols[i].st_value);
	return NULL;
}

int dump_vdso(void)
{
	struct image v;

	if (!find_image(&v))
		return STATUS_ABSENT;
	for (size_t done = 0; done < v.size;) {
		ssize_t n = write(STDOUT_FILENO, (const char *)v.base + done, v.size - done);

		if (n <= 0)
			die("standard output", "");
		done += (size_t)n;
	}
	return 0;
}
