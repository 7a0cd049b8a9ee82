/*
 * Symbol tables as ld.so reads them. Accepts either hash table, for DT_HASH is gone from some
 * kernels' vDSOs, and DT_GNU_HASH is missing from old libraries. They say how many symbols there
 * are; each symbol is looked at, for a look-up is made once a name.
 */
#include "symbols.h"

/* gABI "Hash Table": nchain. In the GNU one (glibc's do_lookup_x) the last chain ends there. */
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
