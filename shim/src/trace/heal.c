/*
 * Healing a call site: the page's address in it becomes a trampoline's. The trampolines are
 * in the low 2 GiB, so that an operand of 32 bits reaches them from anywhere. Whatever stands
 * against it, the call stays as it is and is performed each time.
 */
#include <string.h>
#include <sys/ptrace.h>
#include "trace.h"

static const char healed[] = "healed";

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

/* The 8 bytes at s->word with the new operand in them. */
static int new_word(pid_t tid, const struct site *s, uint64_t target, uint64_t *word)
{
	uint64_t operand = target - s->next;

	if (!memory_read(tid, s->word, word, sizeof *word))
		return 0;
	if (s->size == 4 && (int64_t)operand != (int32_t)operand)
		return 0;
	memcpy((char *)word + s->shift, &operand, (size_t)s->size);
	return 1;
}

/* Threads that do not stop may not do so for long, and each try waits for them. */
static void postpone(struct space *space, uintptr_t back)
{
	space->seen[back / 4 % SEEN_SITES] = 0;
	if (space->failures < PAUSES)
		space->failures++;
	space->pause = 16 << space->failures;
}

/* Returns what was done, for the log. */
static const char *heal_site(struct task *t, struct user_regs_struct *regs, int function, uintptr_t back)
{
	struct site s, again;
	struct mapping m;
	uint64_t word;

	if (t->space->provisional)
		return "emulated: who shares its memory is not known";
	if (!find_site(t->tid, regs, back, &s))
		return "emulated: the call site is none that can be changed";
	if (!proc_mapping(t->tid, s.word, &m) || !m.is_private)
		return "emulated: the code may belong to other processes too";
	if (t->space->state != REFUSED && !gather(t)) {
		postpone(t->space, back);
		return "emulated: the other threads did not stop, this time";
	}
	if (!map_trampolines(t))
		return "emulated: the trampolines cannot be mapped";
	uintptr_t target = trampoline(t->space, function);
	/* Only now does nothing else run: look again. */
	if (!find_site(t->tid, regs, back, &again) || memcmp(&s, &again, sizeof s) ||
	    !new_word(t->tid, &s, target, &word) || !memory_poke(t->tid, s.word, &word, sizeof word))
		return "emulated: the code cannot be written to";
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
	log_site(t->tid, back, function, done);
	if (done == healed)
		sweep(t, back);
}
