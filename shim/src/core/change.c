/*
 * Changes an instruction that other threads may be running:
 *
 *	1. write hlt, one byte, over its first byte: a thread that reaches it faults,
 *	   and its handler or tracer handles that
 *	2. make all processors that run the program see the change
 *	3. write the rest of the instruction; repeat 2; then write its first byte
 *
 * So no processor sees a partial change, whatever its position. A site whose hlt could not be written is
 * not changed further; one whose rest could not be written gets its old bytes back.
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
	static const unsigned char lea[LONGEST] = { 0x48, 0x8d, 0x05, 0, 0, 0, 0, 0x0f, 0x1f, 0x00 };	/* a nop if the mov had 10 bytes */
	uintptr_t distance = target - s->start - (s->length == DIRECT ? DIRECT : LEA);
	int reaches = (intptr_t)distance == (int32_t)distance;
	unsigned char *code = s->new;

	if (s->length == DIRECT) {
		code[0] = 0xe8;
		put32(code + 1, (uint32_t)distance);
		return reaches;
	}
	for (int i = 0; i < LONGEST; i++)
		code[i] = lea[i];
	put32(code + 3, (uint32_t)distance);
	if (reaches)
		return 1;
	code[1] = 0xc7;				/* mov $target, %rax: the low 2 GiB from anywhere */
	code[2] = 0xc0;
	put32(code + 3, (uint32_t)target);
	return target <= INT32_MAX;
}

static int put_rest(struct task *t, const struct site *s, const unsigned char *code)
{
	return vfix_put(t, s->start + 1, code + 1, (size_t)s->length - 1);
}

int vfix_change(struct task *t, struct site *s, void (*sync)(struct task *t))
{
	const unsigned char hlt = HLT, *code = 0;

	s->stays = 0;
	if (!vfix_put(t, s->start, &hlt, sizeof hlt))
		return 0;
	sync(t);
	if (put_rest(t, s, s->new))
		code = s->new;
	else if (put_rest(t, s, s->old))
		code = s->old;
	sync(t);
	s->stays = !code || !vfix_put(t, s->start, code, 1);
	return code == s->new && !s->stays;
}
