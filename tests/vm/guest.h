/* guest: what its files share. */
#ifndef GUEST_H
#define GUEST_H

#include <stddef.h>
#include <sys/types.h>

/* Where a command runs, and as whom; own_root: see enter.c. */
struct place {
	const char *root;
	int own_root;
	uid_t uid;
	gid_t gid;
};

#define STREAMS "/out/" /* has the streams of the command that runs */

/* command.c: the words of the next command of standard input, or NULL; runs them, and returns the
 * status as a shell shows it. */
char **next_command(void);
int run(const struct place *place, char **words);

/* enter.c: executes the words there; it does not return. */
void enter(const struct place *place, char **words);

/* archive.c: writes the results of command N, or of the boot, 0, to standard output. */
void keep_kernel_log(int n);
void keep_command(int n, int status);
void keep_end(int n);

/* Ends the machine without a result; the host then shows the console. */
void give_up(const char *what);

#endif
