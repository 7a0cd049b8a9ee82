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
/* Writes one byte while other threads run; never to memory that other processes share. */
int write_private_byte(pid_t t, uintptr_t at, unsigned char byte);
int is_go(pid_t t);
void say(pid_t t, uintptr_t at, const char *what);

/* prepare.c: the task has executed a program. tracer is this process's ID for the task if the tracer may leave.
 * Returns 1 if it left: all that the program will call is changed, and it waits for this process's end. */
int prepare(pid_t t, pid_t tracer);

/* follow.c: traces until no task is left. */
_Noreturn void follow(pid_t command, pid_t self);

#endif
