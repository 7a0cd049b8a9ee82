/*
 * The pages of trampolines in memory: the code that the rewriter injects into files, followed by the state
 * page with the vDSO's addresses. Only the trampolines of that code are used: the hooks after them are for
 * files.
 */
#include "core.h"
#include "injected.h"	/* made from injected.elf: the offsets of its parts */

__asm__ (".section .rodata\n"
	 ".global vfix_injected\n"
	 ".hidden vfix_injected\n"
	 "vfix_injected:\n"
	 ".incbin \"" INJECTED_BIN "\"\n"
	 ".previous\n");
extern const unsigned char vfix_injected[];

int vfix_put_trampolines(struct task *t, uintptr_t code, const struct vfix_state *state)
{
	return vfix_put(t, code, vfix_injected, INJECTED_HOOK_ENTRY) && vfix_put(t, code + INJECTED_STATE, state, sizeof *state);
}

int vfix_has_trampolines(struct task *t, uintptr_t code)
{
	unsigned char there[INJECTED_HOOK_ENTRY];

	if (!vfix_read(t, code, there, sizeof there))
		return 0;
	for (size_t i = 0; i < sizeof there; i++)
		if (there[i] != vfix_injected[i])
			return 0;
	return 1;
}

int vfix_is_trampoline(uintptr_t code, uintptr_t address)
{
	return address - code < INJECTED_HOOK_ENTRY;
}

uintptr_t vfix_trampoline(uintptr_t code, int function, enum trampoline kind)
{
	static const uint16_t at[VFIX_FUNCTIONS][2] = {
		{ INJECTED_KEEP_GETTIMEOFDAY, INJECTED_SYSCALL_GETTIMEOFDAY },
		{ INJECTED_KEEP_TIME, INJECTED_SYSCALL_TIME },
		{ INJECTED_KEEP_GETCPU, INJECTED_SYSCALL_GETCPU },
	};

	return code + at[function][kind];
}
