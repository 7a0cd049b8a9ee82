/*
 * The vDSO's symbols. Accepts either hash table, for DT_HASH is gone from some kernels'
 * vDSOs, and looks at no version: the names are the kernel's own ("__vdso_") and unique.
 */
#include <elf.h>
#include <link.h>
#include <stddef.h>
#include "vdso.h"

/* The tables of a vDSO that a look-up needs; either hash table may be missing. */
struct tables {
	const Elf64_Sym *symbols;
	const char *strings;
	const uint32_t *hash;
	const uint32_t *gnu_hash;
};

uintptr_t vfix_vdso_base(const struct vfix_auxv *auxv)
{
	for (; auxv->type != AT_NULL; auxv++)
		if (auxv->type == AT_SYSINFO_EHDR)
			return auxv->value;
	return 0;
}

/* How many symbols the tables name: DT_HASH says so; in DT_GNU_HASH the last chain ends there. */
static uint32_t count_symbols(const struct tables *t)
{
	if (t->hash)
		return t->hash[1];
	if (!t->gnu_hash)
		return 0;
	uint32_t buckets = t->gnu_hash[0], first = t->gnu_hash[1], bloom_words = t->gnu_hash[2];
	const uint32_t *bucket = t->gnu_hash + 4 + 2 * bloom_words;
	const uint32_t *chain = bucket + buckets;
	uint32_t last = 0;

	for (uint32_t i = 0; i < buckets; i++)
		if (bucket[i] > last)
			last = bucket[i];
	if (last < first)
		return 0;
	while (!(chain[last - first] & 1))
		last++;
	return last + 1;
}

/* Which of the three functions the name is, or -1. */
static int function_of(const char *name)
{
	static const char names[VFIX_FUNCTIONS][sizeof "__vdso_gettimeofday"] = {
		[VFIX_GETTIMEOFDAY] = "__vdso_gettimeofday",
		[VFIX_TIME] = "__vdso_time",
		[VFIX_GETCPU] = "__vdso_getcpu",
	};

	for (int i = 0; i < VFIX_FUNCTIONS; i++) {
		size_t j = 0;
		while (names[i][j] && names[i][j] == name[j])
			j++;
		if (!names[i][j] && !name[j])
			return i;
	}
	return -1;
}

/* Fills t from the image at base; returns what to add to its vaddrs. */
static uintptr_t find_tables(uintptr_t base, struct tables *t)
{
	const Elf64_Ehdr *header = (const void *)base;
	const Elf64_Phdr *program = (const void *)(base + header->e_phoff);
	const Elf64_Dyn *dynamic = 0;
	uintptr_t bias = 0;
	int loaded = 0;

	for (int i = 0; i < header->e_phnum; i++, program++) {
		if (program->p_type == PT_LOAD && !loaded) {
			bias = base + program->p_offset - program->p_vaddr;
			loaded = 1;
		} else if (program->p_type == PT_DYNAMIC) {
			dynamic = (const void *)(base + program->p_offset);
		}
	}
	if (!loaded || !dynamic)
		return 0;
	for (; dynamic->d_tag != DT_NULL; dynamic++) {
		const void *p = (const void *)(bias + dynamic->d_un.d_ptr);

		if (dynamic->d_tag == DT_STRTAB)
			t->strings = p;
		else if (dynamic->d_tag == DT_SYMTAB)
			t->symbols = p;
		else if (dynamic->d_tag == DT_HASH)
			t->hash = p;
		else if (dynamic->d_tag == DT_GNU_HASH)
			t->gnu_hash = p;
	}
	return bias;
}

int vfix_vdso_each(uintptr_t base, int (*visit)(const char *name, uintptr_t address, void *argument), void *argument)
{
	struct tables t = { 0 };
	uintptr_t bias = find_tables(base, &t);
	int count = 0;

	if (!t.strings || !t.symbols)
		return 0;
	for (uint32_t i = 0, n = count_symbols(&t); i < n; i++) {
		const Elf64_Sym *symbol = &t.symbols[i];

		if (symbol->st_shndx != SHN_UNDEF)
			count += visit(t.strings + symbol->st_name, bias + symbol->st_value, argument);
	}
	return count;
}

static int take(const char *name, uintptr_t address, void *argument)
{
	uintptr_t *found = argument;
	int function = function_of(name);

	if (function < 0 || found[function])
		return 0;
	found[function] = address;
	return 1;
}

int vfix_vdso_lookup(uintptr_t base, uintptr_t found[VFIX_FUNCTIONS])
{
	for (int i = 0; i < VFIX_FUNCTIONS; i++)
		found[i] = 0;
	return vfix_vdso_each(base, take, found);
}

/* Linux's note: arch/x86/entry/vdso/note.S, ELFNOTE32("Linux", 0, LINUX_VERSION_CODE). */
static int has_linux_note(uintptr_t at, uintptr_t end)
{
	static const char name[] = "Linux";

	while (at + sizeof(Elf64_Nhdr) + sizeof name <= end) {
		const Elf64_Nhdr *note = (const void *)at;
		const char *n = (const void *)(note + 1);
		size_t same = 0;

		while (same < sizeof name && n[same] == name[same])
			same++;
		if (same == sizeof name && note->n_namesz == sizeof name && note->n_type == 0)
			return 1;
		at += sizeof *note + ((note->n_namesz + 3ul) & -4ul) + ((note->n_descsz + 3ul) & -4ul);
	}
	return 0;
}

int vfix_vdso_is_linux(uintptr_t base)
{
	const Elf64_Ehdr *header = (const void *)base;
	const Elf64_Phdr *program = (const void *)(base + header->e_phoff);

	for (int i = 0; i < header->e_phnum; i++, program++)
		if (program->p_type == PT_NOTE &&
		    has_linux_note(base + program->p_offset, base + program->p_offset + program->p_filesz))
			return 1;
	return 0;
}
