/*
 * Healing a call site: the page's address in it becomes a trampoline's. The trampolines are
 * in the low 2 GiB, so that an operand of 32 bits reaches them from anywhere. Whatever stands
 * against it, the call stays as it is and is performed each time.
 */
#include <string.h>
#include <sys/ptrace.h>
#include "trace.h"

static const char healed[] = "healed", later[] = "emulated: the other threads did not stop, this time";

#define PAUSES 12	/* the pause doubles this often */

int heal_enabled = 1;

/* Tried before? Two sites of one slot are tried in turns, which costs time and nothing else. */
static int is_seen(struct space *space, uintptr_t back)
{
	uintptr_t *slot = &space->seen[back / 4 % SEEN_SITES];

	if (*slot == back)
		return 1;
	*slot = back;
	return 0;
}

/* The instruction with the new operand in it. */
static int make_patch(pid_t tid, const struct site *s, uint64_t target, struct patch *p)
{
	uint64_t operand = target - s->next;

	p->start = s->start;
	p->length = s->length;
	if (!memory_read(tid, s->start, p->code, (size_t)s->length))
		return 0;
	if (s->size == 4 && (int64_t)operand != (int32_t)operand)
		return 0;
	memcpy(p->code + s->shift, &operand, (size_t)s->size);
	return 1;
}

static void forget(struct space *space, uintptr_t back)
{
	space->seen[back / 4 % SEEN_SITES] = 0;
}

/* Threads that do not stop may not do so for long, and each try waits for them. */
static void postpone(struct space *space)
{
	if (space->failures < PAUSES)
		space->failures++;
	space->pause = 16 << space->failures;
}

/* Returns what was done, for the log. */
static const char *heal_site(struct task *t, struct user_regs_struct *regs, int function, uintptr_t back)
{
	struct site s;
	struct mapping m;
	struct patch p;

	if (t->space->provisional)
		return "emulated: who shares its memory is not known";
	if (!find_site(t->tid, regs, back, &s))
		return "emulated: the call site is none that can be changed";
	if (!proc_mapping(t->tid, s.start, &m) || !m.is_private)
		return "emulated: the code may belong to other processes too";
	if (!map_trampolines(t))
		return "emulated: the trampolines cannot be mapped";
	uintptr_t target = trampoline(t->space, function);
	if (!make_patch(t->tid, &s, target, &p))
		return "emulated: the code cannot be changed";
	switch (patch_code(t, &p, 1)) {
	case PATCH_LATER:
		return later;
	case PATCH_REFUSED:
		return "emulated: the code cannot be written to";
	default:
	}
	if (s.reg >= 0)
		*register_of(regs, s.reg) = target; /* a loop may call through it again */
	return healed;
}

/* The other sites of the same code cost a fault less each. That matters most where SIGSEGV is
 * blocked: for a fault then the kernel unblocks it and takes the handler away. */
void heal(struct task *t, struct user_regs_struct *regs, int function, uintptr_t back)
{
	const char *done = "emulated: VFIX_HEAL=0";

	if (t->space->pause > 0) {
		t->space->pause--;
		return;
	}
	if (is_seen(t->space, back))
		return;
	if (heal_enabled)
		done = heal_site(t, regs, function, back);
	if (done != healed && is_gone(t)) {
		forget(t->space, back);
		return;
	}
	log_site(t->tid, back, function, done);
	if (done == later) {
		forget(t->space, back);
		postpone(t->space);
	} else if (done == healed) {
		t->space->failures = 0;
		sweep(t, back);
	}
}
