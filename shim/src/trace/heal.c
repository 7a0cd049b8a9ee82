/*
 * Heals a call site: it calls a trampoline instead of the page. The trampolines are in the low 2 GiB, which
 * an operand of 32 bits reaches from anywhere. If this is not possible, the call does not change and is
 * performed each time.
 */
#include <sys/ptrace.h>
#include "trace.h"

static const char healed[] = "healed", stale[] = "emulated: a register has the value from before", later[] = "emulated: the other threads did not stop, this time";

#define PAUSES 12	/* how often the pause doubles */

int heal_enabled = 1;

/* Whether the site was tried before. Two sites with the same slot are tried alternately, which only costs
 * time. */
static int is_seen(struct space *space, uintptr_t back)
{
	uintptr_t *slot = &space->seen[back / 4 % SEEN_SITES];

	if (*slot == back)
		return 1;
	*slot = back;
	return 0;
}

static void forget(struct space *space, uintptr_t back)
{
	space->seen[back / 4 % SEEN_SITES] = 0;
}

/* Threads that do not stop may take long, and each attempt waits for them. */
static void postpone(struct space *space)
{
	if (space->failures < PAUSES)
		space->failures++;
	space->pause = 16 << space->failures;
}

/* Returns the result, for the log. */
static const char *heal_site(struct task *t, int function, uintptr_t back)
{
	struct site s;
	struct mapping m;

	if (t->space->provisional)
		return "emulated: who shares its memory is not known";
	enum finding found = vfix_find_site(t, back, function, &s);
	if (found == NO_SITE)
		return "emulated: the call site cannot be changed";
	if (found == HEALED_BEFORE)
		return stale;
	if (!proc_mapping(t->tid, s.start, &m) || m.shared)
		return "emulated: the code may belong to other processes too";
	if (!map_trampolines(t))
		return "emulated: the trampolines cannot be mapped";
	if (!vfix_encode(&s, trampoline(t->space, function)))
		return "emulated: the code cannot be changed";
	switch (patch_code(t, &s)) {
	case PATCH_LATER:
		return later;
	case PATCH_REFUSED:
		return "emulated: the code cannot be written to";
	default:
		return healed;
	}
}

/* The other sites of the same code would each cost another fault. This matters most if SIGSEGV is blocked:
 * for a fault, the kernel then unblocks it and removes the handler. */
void heal(struct task *t, int function, uintptr_t back)
{
	const char *done = "emulated: VFIX_HEAL=0";

	if (t->space->pause > 0) {
		t->space->pause--;
		return;
	}
	if (is_seen(t->space, back))
		return;
	if (heal_enabled)
		done = heal_site(t, function, back);
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
