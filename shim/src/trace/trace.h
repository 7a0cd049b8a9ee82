/*
 * vfix-trace: three processes.
 *
 *	supervisor	the process that was started (supervise.c). Parent of the
 *			command: forwards signals, reaps, stops and ends as the command does
 *	command		what was asked for; all its descendants are also traced
 *	tracer		follows them (follow.c), in a session of its own. It is not the
 *			parent, so that it outlives the command for what runs on in the
 *			background, and so that a stopped command does not stop the tracing
 *
 * A task is a thread of the kernel, identified by its tid. Tasks that share memory share a space.
 */
#ifndef VFIX_TRACE_H
#define VFIX_TRACE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/user.h>
#include "core/core.h"

/* Exit statuses, as of env(1) and the shells. */
enum { STATUS_USAGE = 2, STATUS_FORBIDDEN = 126, STATUS_CANNOT_EXEC = 126, STATUS_NOT_FOUND = 127 };

#define SEEN_SITES 64	/* sites of a space that were tried, by a hash of their address */

/* The memory of a process, shared by its threads and by a child of vfork. */
struct space {
	int users;
	unsigned family;		/* equal in the copies from forks */
	enum { UNTRIED, MAPPED, REFUSED } state;
	uintptr_t vdso;			/* of the program, from its start; 0: not known */
	uintptr_t code;			/* address of the trampolines, if MAPPED */
	int no_sync;			/* the processors cannot be made to see new code: stop the tasks */
	uintptr_t swept;		/* start of the mapping whose sites were healed last */
	int is_go;			/* its goroutines have no stack for the vDSO */
	int provisional;		/* of a child whose parent is not known: never healed */
	int failures;			/* of gather(), */
	int pause;			/* faults to skip before the next attempt */
	uintptr_t seen[SEEN_SITES];	/* return addresses of calls that need no second attempt */
};

enum task_state {
	STARTING,	/* not seen yet: it stops before it runs */
	STOPPED,	/* waits for the tracer */
	RUNNING,
	LISTENING,	/* in a group-stop: it stops again before it runs */
	DEAD,		/* has ended, and is reported after its other threads */
	VFORKING,	/* waits for its child of vfork, and stops before it runs */
};

struct task {
	pid_t tid;
	enum task_state state;
	struct space *space;		/* NULL until the parent's event is seen */
	int status;			/* of a stop that follow() has not handled yet */
	int queued;
	int was_released;		/* it runs, and its parent's event is not seen */
	struct task *next;		/* in the table */
	struct task *next_queued;
};

/* tasks.c */
struct task *task_find(pid_t tid);
struct task *task_add(pid_t tid, struct space *space);
void task_remove(struct task *t);
void task_set_space(struct task *t, struct space *space);
void resume(struct task *t, int signal);
void task_each(void (*visit)(struct task *t, void *argument), void *argument);
struct space *space_new(void);
struct space *space_copy(const struct space *of);

/* follow.c: follows until no task is left. When the command ends and tasks are left, it writes a byte to
 * report. */
void follow(pid_t command, pid_t supervisor, int report);

/* family.c: t has created a child; t has executed another program. For a child that was seen before its
 * parent's event, SIGALRM comes after some time, and waiting children are then released. */
void adopt(struct task *t);
void renew(struct task *t);
void await_parent(void);
void release_unknown(void);

/* queue.c: unqueue returns NULL if the queue is empty. queue_all queues all pending stops, so that each
 * task gets a turn even if the newest ones stop all the time. */
void queue_status(struct task *t, int status);
void queue_all(void);
struct task *unqueue(int *status);

/* gather.c: 1 if no other task of t's space can run code before follow() continues. */
int gather(struct task *t);

/* signals.c: the signal for t instead of the one that came; 0: none. FORWARDED is in si_errno of signals
 * that the supervisor forwards, whose sender is then another process. */
int pass_signal(struct task *t, pid_t command, int signal);
enum { FORWARDED = 0x76666978, FORWARDED_VALUE };

/* fix.c: 1 if t's SIGSEGV was a call of the page, and has been performed. */
int fix_fault(struct task *t);

/* heal.c: makes the call that returns to back call the trampolines. */
void heal(struct task *t, int function, uintptr_t back);
extern int heal_enabled;

/* patch.c: changes a site, which other tasks may be running. */
enum patched { PATCHED, PATCH_REFUSED, PATCH_LATER };
enum patched patch_code(struct task *t, struct site *s);
/* 1 if the fault at rip comes from an instruction that was being replaced, and now is. */
int patch_was_met(struct task *t, uintptr_t rip);
/* Completes the replacement that was interrupted when t's child of vfork was killed. */
void patch_rest(struct task *t);

/* map.c: 1 if the trampolines are in t's space; maps them if necessary. */
int map_trampolines(struct task *t);
uintptr_t trampoline(const struct space *space, int function);
/* In the task's vDSO: a syscall instruction, and a return instruction; 0 if not known. */
uintptr_t vdso_syscall(const struct space *space);
uintptr_t vdso_return(const struct space *space);

/* inject.c: makes the task perform a system call, preserving all registers; returns its result. */
long inject(struct task *t, uintptr_t instruction, const long arguments[7]);
/* Continues to the end of the task's current system call; 0 if the task is gone. */
int finish_syscall(struct task *t);
/* 1 if the stopped task has been killed since: its failures then mean nothing for other tasks of its space.
 * */
int is_gone(const struct task *t);

/* rights.c: opens a file with the rights of the task's user, which the kernel may require. SIGUSR1 notifies
 * the tracer of the supervisor's end. */
int open_as_user(int directory, const char *path, int flags, const uint32_t ids[2]);
void watch(pid_t supervisor);

/* proc.c, go.c. proc_mapping fills m with the mapping of the address; 0 if there is none, or it is not
 * known. */
int proc_mapping(pid_t tid, uintptr_t address, struct mapping *m);
void proc_open(void);
size_t proc_read(pid_t tid, const char *name, void *buffer, size_t size);
int proc_fd(pid_t tid, const char *name);
struct start_values { uintptr_t vdso, interpreter, entry; };
struct start_values proc_start_values(pid_t tid);
int proc_cpu(pid_t tid);		/* -1: not known */
int proc_is_stopped(pid_t tid);
int proc_is_dead(pid_t tid);
int proc_is_thread(pid_t tid);		/* not a process's first */
int proc_has_signal(pid_t tid);		/* 1 if one is pending and not blocked */
/* 1 if the task has a seccomp filter that the tracer does not have. */
int proc_is_sandboxed(pid_t tid);
int proc_is_go(pid_t tid);
/* 1 if this process itself has a tracer. */
int proc_is_traced(void);

/* sweep.c: heals the other sites around one. */
void sweep(struct task *t, uintptr_t around);

/* memory.c: 1 if all of it was read or written, as the task itself may. */
int memory_read(pid_t tid, uintptr_t from, void *to, size_t size);
int memory_write(pid_t tid, uintptr_t to, const void *from, size_t size);
int memory_poke(pid_t tid, uintptr_t to, const void *from, size_t size);

/* text.c: the messages for users. */
extern const char help_text[];
void error(const char *format, ...) __attribute__((format(printf, 1, 2)));
void hint(const char *format, ...) __attribute__((format(printf, 1, 2)));
void explain_forbidden(int error_number);
void log_site(pid_t tid, uintptr_t back, int function, const char *done);
extern int log_fd;	/* -1: nothing is logged */

/* supervise.c: runs the command under a tracer and ends as it ends. */
_Noreturn void supervise(char **command);

/* command.c: executes the command, or reports why not and ends. */
_Noreturn void execute(char **command);

/* end.c */
_Noreturn void end_as(int status);
void no_core(void);

#endif
