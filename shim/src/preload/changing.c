/* A thread that reaches an instruction while it is being changed (core/change.c). */
#include "heal.h"

/* Neither instruction can fault itself: a call, or lea (%rip). */
static int names_a_stub(const volatile unsigned char *code)
{
	uintptr_t at = (uintptr_t)code;

	if (code[0] == 0xe8)
		return vfix_is_near(at + 5 + *(const volatile int32_t *)(code + 1));
	return code[0] == 0x48 && code[1] == 0x8d && code[2] == 0x05 && vfix_is_near(at + 7 + *(const volatile int32_t *)(code + 3));
}

int vfix_stand_in(greg_t *regs)
{
	const volatile unsigned char *code = (void *)regs[REG_RIP];
	uintptr_t start = __atomic_load_n(&vfix_site.start, __ATOMIC_SEQ_CST);
	const volatile struct site *s = &vfix_site;
	int length = s->length;
	uintptr_t entry = vfix_entry_of(s->function);

	if (*code != HLT)
		return names_a_stub(code) ? -1 : 0;
	if (start != (uintptr_t)code || __atomic_load_n(&vfix_site.start, __ATOMIC_SEQ_CST) != start)
		return 0;
	if (length == DIRECT) {
		regs[REG_RSP] -= sizeof(uintptr_t);
		*(uintptr_t *)regs[REG_RSP] = regs[REG_RIP] + length;
		regs[REG_RIP] = entry;
	} else {
		regs[REG_RAX] = entry;
		regs[REG_RIP] += length;
	}
	return 1;
}
