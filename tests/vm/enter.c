/* enter: chroot as a user and group and execute a program there, with an environment of the given
 * variables alone: the words are [NAME=VALUE...] PROGRAM [ARGUMENT...].
 *
 * busybox's own chroot will not do: it runs its applets in place of the root's programs.
 * Exit status as env(1): 125 the root cannot be entered, 126 the program cannot be
 * executed, 127 it is not there. */
#define _GNU_SOURCE
#include <errno.h>
#include <grp.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <unistd.h>
#include "guest.h"

/* own_root makes ROOT the root of a mount namespace of this process: in a chroot alone what
 * enters a container's namespace (runc exec) comes out in the initramfs. */
static int own_root(const char *root)
{
	if (unshare(CLONE_NEWNS) || chdir(root) || mount(".", "/", NULL, MS_MOVE, NULL))
		return -1;
	return chroot(".");
}

static void check(int status, const char *what)
{
	if (status == 0)
		return;
	fprintf(stderr, "enter: error: %s: %s\n", what, strerror(errno));
	_exit(125);
}

void enter(const struct place *place, char **words)
{
	check(place->own_root ? own_root(place->root) : chroot(place->root), place->root);
	check(chdir("/"), "/");
	check(setgroups(1, &place->gid), "setgroups");
	check(setgid(place->gid), "setgid");
	check(setuid(place->uid), "setuid");
	clearenv();
	for (; *words && strchr(*words, '='); words++)
		putenv(*words);
	if (*words)
		execvp(*words, words);
	fprintf(stderr, "enter: error: %s: %s\n", *words ? *words : "no program", strerror(errno));
	_exit(errno == ENOENT ? 127 : 126);
}
