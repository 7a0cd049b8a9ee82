/*
 * The vDSO's symbols. Versions are ignored: the names are the kernel's own ("__vdso_") and unique.
 */
#include <stddef.h>
#include "symbols.h"
#include "vdso.h"

uintptr_t vfix_vdso_base(const struct vfix_auxv *auxv)
{
	for (; auxv->type != AT_NULL; auxv++)
		if (auxv->type == AT_SYSINFO_EHDR)
			return auxv->value;
	return 0;
}

static const Elf64_Phdr *program_headers(uintptr_t base)
{
	return (const void *)(base + ((const Elf64_Ehdr *)base)->e_phoff);
}

static int count_headers(uintptr_t base)
{
	return ((const Elf64_Ehdr *)base)->e_phnum;
}

/* Fills t from the image at base; returns what to add to its vaddrs. */
static uintptr_t find_symbols(uintptr_t base, struct vfix_symbols *t)
{
	const Elf64_Phdr *program = program_headers(base);
	const Elf64_Dyn *dynamic = 0;
	uintptr_t bias = 0;
	int loaded = 0;

	t->count = 0;
	for (int i = 0; i < count_headers(base); i++, program++) {
		if (program->p_type == PT_LOAD && !loaded) {
			bias = base + program->p_offset - program->p_vaddr;
			loaded = 1;
		} else if (program->p_type == PT_DYNAMIC) {
			dynamic = (const void *)(base + program->p_offset);
		}
	}
	if (loaded && dynamic)
		vfix_symbols_read(dynamic, bias, UINTPTR_MAX, t);
	return bias;
}

uintptr_t vfix_vdso_symbol(uintptr_t base, const char *name)
{
	struct vfix_symbols t;
	uintptr_t bias = find_symbols(base, &t);

	for (uint32_t i = 0; i < t.count; i++)
		if (t.symbol[i].st_shndx != SHN_UNDEF && vfix_same(t.strings + t.symbol[i].st_name, name))
			return bias + t.symbol[i].st_value;
	return 0;
}

/* Linux's note: arch/x86/entry/vdso/note.S, ELFNOTE32("Linux", 0, LINUX_VERSION_CODE). */
static int has_linux_note(uintptr_t at, uintptr_t end)
{
	static const char name[] = "Linux";

	while (at + sizeof(Elf64_Nhdr) + sizeof name <= end) {
		const Elf64_Nhdr *note = (const void *)at;

		if (note->n_namesz == sizeof name && note->n_type == 0 && vfix_same((const char *)(note + 1), name))
			return 1;
		at += sizeof *note + ((note->n_namesz + 3ul) & -4ul) + ((note->n_descsz + 3ul) & -4ul);
	}
	return 0;
}

static int is_linux(uintptr_t base)
{
	const Elf64_Phdr *program = program_headers(base);

	for (int i = 0; i < count_headers(base); i++, program++)
		if (program->p_type == PT_NOTE &&
		    has_linux_note(base + program->p_offset, base + program->p_offset + program->p_filesz))
			return 1;
	return 0;
}

int vfix_vdso_lookup(uintptr_t base, struct vfix_state *state)
{
	static const char names[VFIX_FUNCTIONS][sizeof "__vdso_gettimeofday"] = {
		[VFIX_GETTIMEOFDAY] = "__vdso_gettimeofday",
		[VFIX_TIME] = "__vdso_time",
		[VFIX_GETCPU] = "__vdso_getcpu",
	};
	int count = 0, exact = base && is_linux(base);

	*state = (struct vfix_state){ 0 };
	for (int i = 0; base && i < VFIX_FUNCTIONS; i++) {
		state->plain[i] = vfix_vdso_symbol(base, names[i]);
		state->exact[i] = exact ? state->plain[i] : 0;
		count += state->plain[i] != 0;
	}
	return count;
}
