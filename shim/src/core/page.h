/* The vsyscall page and its three entries (arch/x86/include/uapi/asm/vsyscall.h). */
#ifndef VFIX_PAGE_H
#define VFIX_PAGE_H

#include <stdint.h>
#include "../vdso.h"

/* Tests build the library and vfix-trace for a page that no kernel maps. */
#ifndef VFIX_PAGE
#define VFIX_PAGE 0xffffffffff600000ul
#endif
#define ENTRY_SIZE 0x400ul

/* The function with its entry at the address, or -1: a call of another address in the page is a crash. */
static inline int vfix_function_at(uintptr_t address)
{
	uintptr_t offset = address - VFIX_PAGE;

	return offset % ENTRY_SIZE || offset / ENTRY_SIZE >= VFIX_FUNCTIONS ? -1 : (int)(offset / ENTRY_SIZE);
}

static inline uintptr_t vfix_entry_of(int function)
{
	return VFIX_PAGE + (uintptr_t)function * ENTRY_SIZE;
}

#endif
