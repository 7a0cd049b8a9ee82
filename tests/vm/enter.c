/* enter: chroot ROOT as user UID and group GID and execute a program there, with an environment of
 * the given variables alone.
 *
 * usage: enter [--own-root] ROOT UID GID [NAME=VALUE...] PROGRAM [ARGUMENT...]
 *        enter --reseed
 *
 * busybox's own chroot will not do: it runs its applets in place of the root's programs.
 * --reseed gives the kernel new random numbers: machines that go on from one saved state would all
 * have the same.
 * Exit status as env(1): 125 the root cannot be entered, 126 the program cannot be
 * executed, 127 it is not there. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <unistd.h>

/* own_root makes ROOT the root of a mount namespace of this process: in a chroot alone what
 * enters a container's namespace (runc exec) comes out in the initramfs. */
static int own_root(const char *root)
{
	if (unshare(CLONE_NEWNS) || chdir(root) || mount(".", "/", NULL, MS_MOVE, NULL))
		return -1;
	return chroot(".");
}

#define RNDRESEEDCRNG _IO('R', 0x07) /* of <linux/random.h>, which musl does not have */

static void check(int status, const char *what)
{
	if (status == 0)
		return;
	fprintf(stderr, "enter: error: %s: %s\n", what, strerror(errno));
	exit(125);
}

int main(int argc, char **argv)
{
	int own = argc > 1 && strcmp(argv[1], "--own-root") == 0;
	argv += own;
	argc -= own;
	if (argc == 2 && strcmp(argv[1], "--reseed") == 0) {
		check(ioctl(open("/dev/urandom", O_RDONLY), RNDRESEEDCRNG), "/dev/urandom");
		return 0;
	}
	if (argc < 5) {
		fprintf(stderr, "usage: enter [--own-root] ROOT UID GID [NAME=VALUE...] PROGRAM [ARGUMENT...]\n");
		return 125;
	}
	gid_t gid = (gid_t)atol(argv[3]);
	check(own ? own_root(argv[1]) : chroot(argv[1]), argv[1]);
	check(chdir("/"), "/");
	check(setgroups(1, &gid), "setgroups");
	check(setgid(gid), "setgid");
	check(setuid((uid_t)atol(argv[2])), "setuid");
	clearenv();
	for (argv += 4; *argv && strchr(*argv, '='); argv++)
		putenv(*argv);
	if (!*argv) {
		fprintf(stderr, "enter: error: no program\n");
		return 125;
	}
	execvp(*argv, argv);
	fprintf(stderr, "enter: error: %s: %s\n", *argv, strerror(errno));
	return errno == ENOENT ? 127 : 126;
}
