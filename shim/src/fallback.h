/*
 * The fallback, for what both of its parts share: libvfix.so (preload/) and vfix-trace (trace/).
 *
 * The stand-in is a page that replaces the vsyscall page. It has the same three entries at the same offsets, at an
 * address below 2 GiB that differs from the vsyscall page's in its upper bytes only. So one byte changes a call site,
 *
 *	48 c7 c0 00 04 60 ff	mov $0xffffffffff600400, %rax
 *	48 c7 c0 00 04 60 5f	mov $0x5f600400, %rax
 *
 * and a write of one byte is never half done: other threads run the old instruction or the new one. A call
 * that still reaches the vsyscall page faults there, and continues in the stand-in.
 */
#ifndef VFIX_FALLBACK_H
#define VFIX_FALLBACK_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include "vdso.h"

#define HIDDEN __attribute__((visibility("hidden")))

/* The twin, for tests and vfix bench, is built for a page that no kernel maps. */
#ifndef VFIX_PAGE
#define VFIX_PAGE 0xffffffffff600000ul
#endif
#define PAGE_BYTES 4096ul
#define ENTRY_BYTES 0x400ul
#define MAP_NOREPLACE 0x100000	/* MAP_FIXED_NOREPLACE, Linux 4.17; an older kernel takes the address as a hint */

/* standin.S: the stand-in's content: its address is known to everybody, so it has no system call, only jumps to
 * the addresses in its slots. The stubs make the three system calls, at a random address. */
#define SLOTS 0xc00		/* offset of the first slot in the page */
#define MARK 0xc18		/* and of the mark by which a tracer knows the page */
#define STAND_IN_BYTES 0xc28
#define STUB_BYTES 16
extern HIDDEN const unsigned char vfix_stand_in[STAND_IN_BYTES], vfix_stubs[VFIX_FUNCTIONS * STUB_BYTES];

/* Where the stand-in may be: the first free address. 0x60000000 and above belong to databases' shared memory, so
 * those come last; below, the heap of a program at a fixed address ends at the stand-in (brk). */
static const unsigned char stand_in_tops[] = { 0x5f, 0x4f, 0x3f, 0x2f, 0x1f, 0x6f, 0x7f };

static inline uintptr_t stand_in_at(unsigned char top)
{
	return (VFIX_PAGE & 0xffffff) | (uintptr_t)top << 24;
}

/* The function whose entry is at the address, or -1: a call of another address in the page is a crash. */
static inline int entry_at(uintptr_t address)
{
	uintptr_t offset = address - VFIX_PAGE;

	return offset % ENTRY_BYTES || offset >= VFIX_FUNCTIONS * ENTRY_BYTES ? -1 : (int)(offset / ENTRY_BYTES);
}

#define SITE_BYTES 7
#define SITE_OPERAND 3	/* the address in a site, 4 bytes, which the processor extends with its sign */
#define SITE_TOP 6	/* the byte of a site that is changed */
#define AFTER_CALL 9	/* from a site to the return address of the `call *%rax` behind it */

/* 1 if these 4 bytes are the address of an entry. */
static inline int is_entry(const unsigned char *operand)
{
	uint32_t address = operand[0] | operand[1] << 8 | operand[2] << 16 | (uint32_t)operand[3] << 24;

	return entry_at((uintptr_t)(intptr_t)(int32_t)address) >= 0;
}

/* 1 if these 8 bytes are. 4 bytes alone are not enough in data: many programs have them. */
static inline int is_pointer(const unsigned char *word)
{
	return is_entry(word) && (word[4] & word[5] & word[6] & word[7]) == 0xff;
}

/* 1 if the code is `mov $entry, %r64` with an immediate of 4 bytes: REX.W or REX.WB, C7 /0, imm32 (SDM, MOV). All
 * call sites in the libcs and programs that were surveyed have this form. */
static inline int is_site(const unsigned char *code)
{
	return (code[0] & 0xfe) == 0x48 && code[1] == 0xc7 && (code[2] & 0xf8) == 0xc0 && is_entry(code + SITE_OPERAND);
}

/* The first 4 bytes that are the address of an entry; end if there are none. */
HIDDEN const unsigned char *vfix_find(const unsigned char *from, const unsigned char *end);

/* Maps a private page in the task; for 0, anywhere. 0 if the address is in use, or the kernel refuses. */
HIDDEN uintptr_t vfix_map(pid_t task, uintptr_t at, int protection);

/* Maps the stand-in, whose entries jump to these addresses. Returns its address, or 0. */
HIDDEN uintptr_t vfix_map_stand_in(pid_t task, int protection, const uintptr_t target[VFIX_FUNCTIONS]);

/* Each part has its own: for the process itself, and for a traced task. The system call's last two arguments are no
 * file and 0; returns its result. vfix_fill writes words to a fresh page. */
HIDDEN long vfix_call(pid_t task, long number, long a, long b, long c, long d);
HIDDEN void vfix_fill(pid_t task, uintptr_t to, const void *from, size_t bytes);

#endif
