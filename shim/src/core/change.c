/*
 * Changing code that other threads may be running:
 *
 *	1. hlt, one byte, over the first byte of each instruction: who comes by faults, and its
 *	   handler or tracer knows why
 *	2. every processor that runs the program learns that its code has changed
 *	3. the rest of each instruction; 2. again; then its first byte
 *
 * So no processor ever sees half of a change, whatever its position. A site whose hlt was not
 * written is not touched further; one whose rest was not gets its old bytes back.
 */
#include "core.h"

#define LEA 7	/* bytes of lea and of mov imm32 */

static void put32(unsigned char *to, uint32_t value)
{
	for (int i = 0; i < 4; i++)
		to[i] = (unsigned char)(value >> 8 * i);
}

int vfix_encode(struct site *s, uintptr_t target)
{
	static const unsigned char nop[] = { 0x0f, 0x1f, 0x00 };	/* where the mov had 10 bytes */
	uintptr_t distance = target - s->start - (s->reg == DIRECT_CALL ? s->length : LEA);
	int reaches = (intptr_t)distance == (int32_t)distance, high = s->reg > 7;
	unsigned char *code = s->new;

	if (s->reg == DIRECT_CALL) {
		code[0] = 0xe8;
		put32(code + 1, (uint32_t)distance);
		return reaches;
	}
	code[0] = high ? 0x4c : 0x48;
	code[1] = 0x8d;				/* lea target(%rip), %reg */
	code[2] = (unsigned char)(0x05 | (s->reg & 7) << 3);
	put32(code + 3, (uint32_t)distance);
	for (int i = 0; i < 3; i++)
		code[LEA + i] = nop[i];
	if (reaches)
		return 1;
	code[0] = high ? 0x49 : 0x48;
	code[1] = 0xc7;				/* mov $target, %reg: the low 2 GiB from anywhere */
	code[2] = (unsigned char)(0xc0 | (s->reg & 7));
	put32(code + 3, (uint32_t)target);
	return target <= INT32_MAX;
}

static int put_rest(struct task *t, const struct site *s, const unsigned char *code)
{
	return vfix_put(t, s->start + 1, code + 1, (size_t)s->length - 1);
}

int vfix_change(struct task *t, struct site *s, int n, void (*sync)(struct task *t))
{
	const unsigned char hlt = HLT;
	int changed = 0;

	for (int i = 0; i < n; i++)
		s[i].state = vfix_put(t, s[i].start, &hlt, sizeof hlt) ? HALF : UNCHANGED;
	sync(t);
	for (int i = 0; i < n; i++)
		if (s[i].state == HALF && !put_rest(t, &s[i], s[i].new))
			s[i].state = put_rest(t, &s[i], s[i].old) ? BACK : STUCK;
	sync(t);
	for (int i = 0; i < n; i++) {
		int back = s[i].state == BACK;

		if (s[i].state == UNCHANGED || s[i].state == STUCK || !vfix_put(t, s[i].start, back ? s[i].old : s[i].new, 1))
			continue;
		s[i].state = back ? UNCHANGED : CHANGED;
		changed += !back;
	}
	return changed;
}
