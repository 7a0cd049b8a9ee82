/* Stops that occurred during a wait for another task's stop, in order. */
#include <sys/wait.h>
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

void queue_all(void)
{
	int status;
	pid_t tid;

	while ((tid = waitpid(-1, &status, __WALL | WNOHANG)) > 0) {
		struct task *t = task_find(tid);

		if (!t)
			t = task_add(tid, NULL);
		if (t->queued)
			t->status = status; /* it was killed, or a thread has executed a program in its place */
		else
			queue_status(t, status);
		if (t->state == RUNNING)
			t->state = STOPPED;
	}
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
