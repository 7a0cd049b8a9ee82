/*
 * The function behind an interposed one: the next definition of its name in the order in which
 * ld.so looks names up. dlsym would do it, but lives in a library of its own before glibc
 * 2.34, and this library needs none.
 */
#include <errno.h>
#include "symbols.h"

extern struct r_debug _r_debug __attribute__((weak));		/* glibc's ld.so */
extern struct r_debug *_dl_debug_addr __attribute__((weak));	/* musl's */

extern const Elf64_Dyn _DYNAMIC[] __attribute__((visibility("hidden")));

long vfix_none(void)
{
	return vfix_fail(-ENOSYS);
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
		found = vfix_symbol(map, name);
	if (!found)
		found = (void *)vfix_none;
	__atomic_store_n(cache, found, __ATOMIC_RELAXED);
	return found;
}
