/* The pipes between the three processes of vfix-trace. */
#ifndef VFIX_TRACE_START_H
#define VFIX_TRACE_START_H

#include <signal.h>
#include <stdint.h>
#include <sys/types.h>

struct start {
	pid_t supervisor;
	int pid[2];		/* command to tracer: its pid, when it may be traced */
	int go[2];		/* tracer to command: a byte, when it is traced */
	int result[2];		/* tracer to supervisor: an int, 0 or the error of ptrace; and
				 * when the command ends a byte, unless the tracer also ends */
	uint64_t mask;		/* the signal mask for the command */
	struct sigaction on_child;
};

/* start.c */
_Noreturn void start_tracer(struct start *s);
_Noreturn void start_command(struct start *s, pid_t tracer, char **arguments);

/* Sets the signal mask, in the kernel's layout; before may be NULL. */
void set_mask(const uint64_t *mask, uint64_t *before);

/* Closes all files except those two; -1 means none. */
void close_all(int except, int and_except);

#endif
