/* Looking a function up in a library that ld.so has mapped. */
#ifndef VFIX_SYMBOLS_H
#define VFIX_SYMBOLS_H

#include <elf.h>
#include <link.h>
#include "preload.h"

/* The address of the function of that name in the library, its current version before an old
 * one; 0 where it has none. */
VFIX_HIDDEN void *vfix_symbol(const struct link_map *map, const char *name);

#endif
