/*
 * The function behind an interposed one: the next definition of its name in ld.so's search order. dlsym would find
 * it, but is in a separate library before glibc 2.34, and this library needs none.
 */
#include "preload.h"
#include "../symbols.h"

extern struct r_debug _r_debug __attribute__((weak));		/* glibc's ld.so */
extern struct r_debug *_dl_debug_addr __attribute__((weak));	/* musl's */
extern int *__errno_location(void) __attribute__((weak));
extern const Elf64_Dyn _DYNAMIC[] HIDDEN;

long vfix_fail(long result)
{
	if (result >= 0)
		return result;
	if (__errno_location)
		*__errno_location() = (int)-result;
	return -1;
}

static const struct link_map *own_map(void)
{
	const struct r_debug *debug = &_r_debug ? &_r_debug : &_dl_debug_addr ? _dl_debug_addr : 0;
	const struct link_map *map = debug ? debug->r_map : 0;

	while (map && map->l_ld != _DYNAMIC)
		map = map->l_next;
	return map;
}

const char *vfix_own_path(void)
{
	const struct link_map *map = own_map();

	return map && map->l_name ? map->l_name : "";
}

#define VERSYM_HIDDEN 0x8000	/* an old version of the name */

/* The library's function with that name, its current version before an old one; 0 if it has none. glibc adds the
 * base to the addresses in its copy of the dynamic section, musl does not. */
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
	const struct link_map *map;
	void *found = __atomic_load_n(cache, __ATOMIC_RELAXED);

	for (map = own_map(); !found && map && (map = map->l_next); )
		found = find_in(map, name);
	__atomic_store_n(cache, found, __ATOMIC_RELAXED);
	return found;
}
