/*
 * The function behind an interposed one: the next definition of its name in ld.so's search order. dlsym
 * would find it, but is in a separate library before glibc 2.34, and this library needs none.
 */
#include <errno.h>
#include "preload.h"
#include "../symbols.h"

extern struct r_debug _r_debug __attribute__((weak));		/* glibc's ld.so */
extern struct r_debug *_dl_debug_addr __attribute__((weak));	/* musl's */

extern const Elf64_Dyn _DYNAMIC[] __attribute__((visibility("hidden")));

long vfix_none(void)
{
	return vfix_fail(-ENOSYS);
}

#define VERSYM_HIDDEN 0x8000	/* an old version of the name */

/* The library's function with that name, its current version before an old one; 0 if it has none. glibc
 * adds the base to the addresses in its copy of the dynamic section, musl does not. */
static void *find_in(const struct link_map *map, const char *name)
{
	struct vfix_symbols t;
	void *found = 0;

	vfix_symbols_read(map->l_ld, map->l_addr, map->l_addr, &t);
	for (uint32_t i = 0; i < t.count; i++) {
		const Elf64_Sym *s = &t.symbol[i];

		if (s->st_shndx == SHN_UNDEF || ELF64_ST_TYPE(s->st_info) != STT_FUNC || !vfix_same(t.strings + s->st_name, name))
			continue;
		if (!t.versions || !(t.versions[i] & VERSYM_HIDDEN))
			return (void *)(map->l_addr + s->st_value);
		if (!found)
			found = (void *)(map->l_addr + s->st_value);
	}
	return found;
}

void *vfix_next(const char *name, void **cache)
{
	const struct r_debug *debug = &_r_debug ? &_r_debug : &_dl_debug_addr ? _dl_debug_addr : 0;
	const struct link_map *map = debug ? debug->r_map : 0;
	void *found = __atomic_load_n(cache, __ATOMIC_RELAXED);

	if (found)
		return found;
	while (map && map->l_ld != _DYNAMIC)
		map = map->l_next;
	while (!found && map && (map = map->l_next))
		found = find_in(map, name);
	if (!found)
		found = (void *)vfix_none;
	__atomic_store_n(cache, found, __ATOMIC_RELAXED);
	return found;
}
