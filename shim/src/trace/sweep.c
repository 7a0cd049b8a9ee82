/* Healing the sites of a piece of code that have not been called yet, when one has been. */
#include "trace.h"

#define MOST (64ul << 20)	/* bytes of code beyond which the search costs more than it saves */

static struct site found[64];
static int count;

/* Only what was changed is reported. */
static void change(struct task *t)
{
	if (count > 0 && patch_code(t, found, count) == PATCHED)
		for (int i = 0; i < count; i++)
			if (found[i].state == CHANGED)
				log_site(t->tid, found[i].ra, found[i].function, "healed before it was called");
	count = 0;
}

static int add(struct task *t, const struct site *s)
{
	if (!map_trampolines(t))
		return 0;
	found[count] = *s;
	if (vfix_encode(&found[count], trampoline(t->space, s->function)))
		count++;
	if (count == sizeof found / sizeof *found)
		change(t);
	return 1;
}

void sweep(struct task *t, uintptr_t around)
{
	struct mapping m;

	if (!proc_mapping(t->tid, around - 1, &m) || m.shared || m.end - m.start > MOST || m.start == t->space->swept)
		return;
	t->space->swept = m.start;
	vfix_sweep(t, m.start, m.end, add);
	change(t);
	if (is_gone(t))
		t->space->swept = 0;
}
