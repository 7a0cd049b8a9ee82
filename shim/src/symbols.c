/*
 * Symbol tables as ld.so reads them. Accepts either hash table, as some kernels' vDSOs have no DT_HASH, and
 * old libraries no DT_GNU_HASH. The hash tables are only used for the number of symbols; each symbol is
 * examined, as each name is looked up once.
 */
#include "symbols.h"

/* gABI "Hash Table": nchain. For the GNU table (glibc's do_lookup_x), the end of the last chain. */
static uint32_t count(const struct vfix_symbols *t)
{
	if (!t->symbol || !t->strings)
		return 0;
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

void vfix_symbols_read(const Elf64_Dyn *d, uintptr_t bias, uintptr_t limit, struct vfix_symbols *t)
{
	*t = (struct vfix_symbols){ 0 };
	for (; d->d_tag != DT_NULL; d++) {
		uintptr_t value = d->d_un.d_ptr;
		const void *p = (const void *)(value < limit ? value + bias : value);

		if (d->d_tag == DT_SYMTAB)
			t->symbol = p;
		else if (d->d_tag == DT_STRTAB)
			t->strings = p;
		else if (d->d_tag == DT_HASH)
			t->hash = p;
		else if (d->d_tag == DT_GNU_HASH)
			t->gnu_hash = p;
		else if (d->d_tag == DT_VERSYM)
			t->versions = p;
	}
	t->count = count(t);
}
