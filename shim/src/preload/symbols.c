/*
 * Symbol tables as ld.so reads them: by either hash table, with or without versions.
 */
#include "symbols.h"

struct library {
	uintptr_t base;
	const Elf64_Sym *symbols;
	const char *strings;
	const uint32_t *hash, *gnu_hash;
	const uint16_t *versions;
};

static int same(const char *a, const char *b)
{
	while (*a && *a == *b)
		a++, b++;
	return *a == *b;
}

/* glibc adds the base to the addresses in its copy of the table, musl does not. */
static void read_dynamic(const struct link_map *map, struct library *l)
{
	*l = (struct library){ .base = map->l_addr };
	for (const Elf64_Dyn *d = map->l_ld; d->d_tag != DT_NULL; d++) {
		uintptr_t value = d->d_un.d_ptr;
		const void *p = (const void *)(value < map->l_addr ? value + map->l_addr : value);

		if (d->d_tag == DT_SYMTAB)
			l->symbols = p;
		else if (d->d_tag == DT_STRTAB)
			l->strings = p;
		else if (d->d_tag == DT_HASH)
			l->hash = p;
		else if (d->d_tag == DT_GNU_HASH)
			l->gnu_hash = p;
		else if (d->d_tag == DT_VERSYM)
			l->versions = p;
	}
}

/* 2: the name's current version is defined there; 1: an old version; 0: something else. */
static int matches(const struct library *l, uint32_t i, const char *name)
{
	const Elf64_Sym *s = &l->symbols[i];

	if (s->st_shndx == SHN_UNDEF || ELF64_ST_TYPE(s->st_info) != STT_FUNC || !same(l->strings + s->st_name, name))
		return 0;
	return l->versions && l->versions[i] & 0x8000 ? 1 : 2;	/* VERSYM_HIDDEN */
}

static void *best(const struct library *l, uint32_t i, const char *name, int *rank, void *found)
{
	int m = matches(l, i, name);

	if (m <= *rank)
		return found;
	*rank = m;
	return (void *)(l->base + l->symbols[i].st_value);
}

/* gABI "Hash Table", and the GNU one as glibc's do_lookup_x reads it. */
static void *look_up(const struct library *l, const char *name)
{
	uint32_t sysv = 0, gnu = 5381;
	void *found = 0;
	int rank = 0;

	for (const char *c = name; *c; c++) {
		sysv = (sysv << 4) + (unsigned char)*c;
		sysv = (sysv ^ (sysv >> 24 & 0xf0)) & 0x0fffffff;
		gnu = gnu * 33 + (unsigned char)*c;
	}
	if (!l->symbols || !l->strings)
		return 0;
	if (l->gnu_hash) {
		uint32_t buckets = l->gnu_hash[0], first = l->gnu_hash[1];
		const uint32_t *bucket = l->gnu_hash + 4 + 2 * l->gnu_hash[2], *chain = bucket + buckets;
		uint32_t i = buckets ? bucket[gnu % buckets] : 0;

		for (; i >= first && i; i++) {
			if ((chain[i - first] | 1) == (gnu | 1))
				found = best(l, i, name, &rank, found);
			if (chain[i - first] & 1)
				break;
		}
	} else if (l->hash && l->hash[0]) {
		const uint32_t *bucket = l->hash + 2, *chain = bucket + l->hash[0];

		for (uint32_t i = bucket[sysv % l->hash[0]]; i; i = chain[i])
			found = best(l, i, name, &rank, found);
	}
	return found;
}

void *vfix_symbol(const struct link_map *map, const char *name)
{
	struct library l;

	read_dynamic(map, &l);
	return look_up(&l, name);
}
