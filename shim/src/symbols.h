/* The symbol table of a mapped ELF image. No libc, no relocation, no writable data. */
#ifndef VFIX_SYMBOLS_H
#define VFIX_SYMBOLS_H

#include <elf.h>
#include <link.h>
#include <stdint.h>

/* Each is 0 if the image has none; count is 0 without a hash table, names or symbols. */
struct vfix_symbols {
	const Elf64_Sym *symbol;
	const char *strings;
	const uint32_t *hash, *gnu_hash;
	const uint16_t *versions;
	uint32_t count;
};

/* Reads the dynamic section. Addresses in it below the limit are vaddrs, to which bias is added: all
 * addresses in a file, none in the copy that glibc's ld.so has relocated. */
void vfix_symbols_read(const Elf64_Dyn *dynamic, uintptr_t bias, uintptr_t limit, struct vfix_symbols *t);

static inline int vfix_same(const char *a, const char *b)
{
	while (*a && *a == *b)
		a++, b++;
	return *a == *b;
}

#endif
