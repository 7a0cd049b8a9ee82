/* The traced tasks, by tid, and their spaces; the continuation of a task. */
#include <stdlib.h>
#include <sys/ptrace.h>
#include <unistd.h>
#include "trace.h"

#define BUCKETS 1024	/* a power of two */

static struct task *table[BUCKETS];

static struct task **bucket(pid_t tid)
{
	return &table[(unsigned)tid % BUCKETS];
}

/* Without memory, no task can be followed: traced tasks continue untraced. */
static void *allocate(size_t size)
{
	void *p = calloc(1, size);

	if (!p)
		_exit(1);
	return p;
}

struct space *space_new(void)
{
	static unsigned families;
	struct space *s = allocate(sizeof *s);

	s->family = ++families;
	return s;
}

/* After a fork: the same bytes at the same addresses, in two copies. */
struct space *space_copy(const struct space *of)
{
	struct space *s = allocate(sizeof *s);

	*s = *of;
	s->users = 0;
	return s;
}

void task_set_space(struct task *t, struct space *space)
{
	if (space)
		space->users++;
	if (t->space && --t->space->users == 0)
		free(t->space);
	t->space = space;
}

struct task *task_find(pid_t tid)
{
	struct task *t = *bucket(tid);

	while (t && t->tid != tid)
		t = t->next;
	return t;
}

struct task *task_add(pid_t tid, struct space *space)
{
	struct task *t = allocate(sizeof *t);

	t->tid = tid;
	t->state = STARTING;
	t->next = *bucket(tid);
	*bucket(tid) = t;
	task_set_space(t, space);
	return t;
}

/* t must not be queued. */
void task_remove(struct task *t)
{
	struct task **p = bucket(t->tid);

	while (*p != t)
		p = &(*p)->next;
	*p = t->next;
	task_set_space(t, NULL);
	free(t);
}

void resume(struct task *t, int signal)
{
	t->state = RUNNING;
	ptrace(PTRACE_CONT, t->tid, 0L, (long)signal); /* fails if it was killed meanwhile */
}

/* visit must not remove a task. */
void task_each(void (*visit)(struct task *t, void *argument), void *argument)
{
	for (int i = 0; i < BUCKETS; i++)
		for (struct task *t = table[i]; t; t = t->next)
			visit(t, argument);
}
