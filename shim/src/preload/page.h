/* The vsyscall page and its three entries (arch/x86/include/uapi/asm/vsyscall.h). */
#ifndef VFIX_PAGE_H
#define VFIX_PAGE_H

#include <stdint.h>
#include "../vdso.h"

/* Tests build the library for a page that nothing maps on any kernel. */
#ifndef VFIX_PAGE
#define VFIX_PAGE 0xffffffffff600000
#endif
#define ENTRY_SIZE 0x400

/* Which function's entry the address is, or -1: inside the page, but no entry, is a crash. */
static inline int vfix_function_at(uintptr_t address)
{
	uintptr_t offset = address - VFIX_PAGE;

	if (offset % ENTRY_SIZE || offset / ENTRY_SIZE >= VFIX_FUNCTIONS)
		return -1;
	return offset / ENTRY_SIZE;
}

#endif
