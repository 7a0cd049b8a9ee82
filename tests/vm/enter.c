/* enter: chroot ROOT as user UID and group GID and execute a program there.
 *
 * usage: enter ROOT UID GID PROGRAM [ARGUMENT...]
 *
 * busybox's own chroot will not do: it runs its applets in place of the root's programs.
 * Exit status as env(1): 125 the root cannot be entered, 126 the program cannot be
 * executed, 127 it is not there. */
#define _GNU_SOURCE
#include <errno.h>
#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void check(int status, const char *what)
{
	if (status == 0)
		return;
	fprintf(stderr, "enter: error: %s: %s\n", what, strerror(errno));
	exit(125);
}

int main(int argc, char **argv)
{
	if (argc < 5) {
		fprintf(stderr, "usage: enter ROOT UID GID PROGRAM [ARGUMENT...]\n");
		return 125;
	}
	gid_t gid = (gid_t)atol(argv[3]);
	check(chroot(argv[1]), argv[1]);
	check(chdir("/"), "/");
	check(setgroups(1, &gid), "setgroups");
	check(setgid(gid), "setgid");
	check(setuid((uid_t)atol(argv[2])), "setuid");
	execvp(argv[4], argv + 4);
	fprintf(stderr, "enter: error: %s: %s\n", argv[4], strerror(errno));
	return errno == ENOENT ? 127 : 126;
}
