/*
 * vfix-trace COMMAND: for programs that cannot be preloaded. This process becomes the command; a child of it, which
 * no ordinary wait finds, traces it and all its descendants. At each exec it maps the stand-in page, and changes one
 * byte of each call site of a static program. A call that faults later continues in the stand-in, and its site is
 * changed then. There is no state per task.
 */
#ifndef VFIX_TRACE_H
#define VFIX_TRACE_H

#include <stdint.h>
#include <sys/types.h>
#include "fallback.h"

/* VFIX_HEAL=0 clears it; VFIX_LOG=1 is a descriptor, else -1. */
extern int heals, log_fd;

/* memory.c: 1 if all of it was read or written. */
int read_memory(pid_t t, uintptr_t from, void *to, size_t bytes);
int read_word(pid_t t, uintptr_t at, uint64_t *word);
int write_word(pid_t t, uintptr_t at, uint64_t word);
int write_byte(pid_t t, uintptr_t at, unsigned char byte);
/* Whether the memory is neither shared with other processes nor writable, so that a byte of it may be changed. */
int is_private_code(pid_t t, uintptr_t at);
int is_go(pid_t t);
void say(pid_t t, uintptr_t at, const char *what);

/* inject.c: continues to the next stop at a system call; 0 if the task has ended. A SIGSTOP that comes meanwhile has
 * no effect until PTRACE_INTERRUPT, and none then if a SIGCONT came later. */
int advance(pid_t t);

/* prepare.c: the task has executed a program. Returns 1 if this process must end: it may, all that the program will
 * call is changed, and the task waits for the end. */
int prepare(pid_t t, int may_leave);

/* follow.c: traces until no task is left. This process is a child of the command. */
_Noreturn void follow(pid_t command);

#endif
