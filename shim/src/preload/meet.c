/* A thread that meets an instruction while it is being changed (core/change.c). */
#include "heal.h"

const unsigned char vfix_register_index[16] = {
	REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP, REG_RSI, REG_RDI,
	REG_R8, REG_R9, REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15,
};

/* Neither can fault by itself: a call, or lea (%rip). */
static int names_a_stub(const volatile unsigned char *code)
{
	uintptr_t at = (uintptr_t)code;

	if (code[0] == 0xe8)
		return vfix_is_near(at + 5 + *(const volatile int32_t *)(code + 1));
	return (code[0] & ~4) == 0x48 && code[1] == 0x8d && (code[2] & 0xc7) == 0x05 &&
		vfix_is_near(at + 7 + *(const volatile int32_t *)(code + 3));
}

int vfix_stand_in(greg_t *regs)
{
	const volatile unsigned char *code = (void *)regs[REG_RIP];

	for (int i = 0, n = __atomic_load_n(&vfix_site_count, __ATOMIC_ACQUIRE); i < n; i++) {
		const volatile struct site *s = &vfix_sites[i];
		int reg = s->reg, length = s->length;
		uintptr_t entry = vfix_entry_of(s->function);

		if (*code != HLT || s->start != (uintptr_t)code)
			continue;
		if (reg == DIRECT_CALL) {
			regs[REG_RSP] -= sizeof(uintptr_t);
			*(uintptr_t *)regs[REG_RSP] = regs[REG_RIP] + length;
			regs[REG_RIP] = entry;
		} else {
			regs[vfix_register_index[reg]] = entry;
			regs[REG_RIP] += length;
		}
		return 1;
	}
	return *code != HLT && names_a_stub(code) ? -1 : 0;
}
