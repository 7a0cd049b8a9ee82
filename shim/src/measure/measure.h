/*
 * vfix-measure: which ways to the time and to the processor's number this kernel has, and their cost. This
 * program makes every measurement of vfix doctor and vfix bench in a separate process, because an attempt
 * may kill it.
 *
 * A way is how a function is reached (page, syscall, vdso), a subject is both: "vdso:time".
 */
#ifndef VFIX_MEASURE_H
#define VFIX_MEASURE_H

#include <stddef.h>

/* Exit statuses. A call that the kernel does not serve ends in the signal itself. */
enum { STATUS_ERROR = 1, STATUS_USAGE = 2, STATUS_ABSENT = 4 };

typedef long call_fn(long a, long b, long c);

enum way { WAY_PAGE, WAY_SYSCALL, WAY_VDSO, WAYS };

struct subject {
	enum way way;
	const char *text;		/* as the user typed it */
	const struct function *function;
	call_fn *call;			/* NULL: this way does not exist here */
};

struct function {
	const char *name;	/* "time", "monotonic" */
	const char *symbol;	/* in the vDSO */
	int number;		/* of the system call */
	int slot;		/* in the vsyscall page, -1: not there */
	int clock;		/* first argument; -1: not a clock_gettime */
};

extern const char *const way_names[WAYS];

/* Parses "WAY:FUNCTION"; an invalid text ends the program. */
struct subject find_subject(const char *text);

/* Makes one call; returns the kernel's result, a negative errno after an error. */
long call_once(const struct subject *s);

/* Returns the duration of n calls in nanoseconds. */
double call_many(const struct subject *s, long n);

double now_ns(void);

/* Installs the filter from stdin: struct sock_filter until its end. */
void install_filter(void);

/* The verbs; each returns the exit status. */
int probe(char **words);
int peek(char **words);
int entries(char **words);
int measure_time(char **words);

/* main.c */
_Noreturn void die(const char *what, const char *object);
_Noreturn void bad_usage(const char *what, const char *word);
long number(const char *word, long least, long most);

#endif
