/* Stops that were met while another task's were waited for, in the order of their coming. */
#include "trace.h"

static struct task *queue, **queue_end = &queue;

void queue_status(struct task *t, int status)
{
	t->status = status;
	t->queued = 1;
	t->next_queued = NULL;
	*queue_end = t;
	queue_end = &t->next_queued;
}

struct task *unqueue(int *status)
{
	struct task *t = queue;

	if (!t)
		return NULL;
	queue = t->next_queued;
	if (!queue)
		queue_end = &queue;
	t->queued = 0;
	*status = t->status;
	return t;
}
