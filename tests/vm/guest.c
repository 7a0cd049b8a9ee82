/* guest: process 1 of the virtual machine from where the first disk has commands; tests/vm/init is
 * it before. To start a program takes an emulated processor longer than most commands run, so it
 * starts none but theirs.
 *
 * usage: guest --wait              until the first disk has something on it
 *        guest READ-ONLY OWN-ROOT MIB UID GID TIME <LIST >DISK
 *
 * It mounts the second disk, the root, read-only under a tmpfs of MIB, runs each command of LIST
 * there, and writes what came of them to DISK, as a cpio archive: see tests/vm/run. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>
#include "guest.h"

#define RNDRESEEDCRNG _IO('R', 0x07) /* of <linux/random.h>, which musl does not have */

void give_up(const char *what)
{
	fprintf(stderr, "tests/vm/guest: error: %s: %s\n", what, strerror(errno));
	reboot(RB_POWER_OFF);
}

static void check(int status, const char *what)
{
	if (status < 0)
		give_up(what);
}

static void wait_for_disk(void)
{
	char first = 0;

	for (;;) {
		int disk = open("/dev/vda", O_RDONLY); /* after the last close it is read again */

		check(disk, "/dev/vda");
		check(read(disk, &first, 1), "/dev/vda");
		close(disk);
		if (first)
			return;
		usleep(10000);
	}
}

/* All machines that go on from one saved state would have the same random numbers. */
static void set_clock_and_reseed(const char *seconds)
{
	struct timespec now = { .tv_sec = atol(seconds) };

	check(clock_settime(CLOCK_REALTIME, &now), "the time of day");
	check(ioctl(open("/dev/urandom", O_RDONLY), RNDRESEEDCRNG), "/dev/urandom");
}

static void mounted(const char *type, const char *target, int flags, const char *options)
{
	mkdir(target, 0755);
	check(mount(strcmp(type, "ext4") ? type : "/dev/vdb", target, type, flags, options), target);
}

static void mount_root(int read_only, const char *mib)
{
	char size[32];

	snprintf(size, sizeof size, "size=%sm", mib);
	mounted("ext4", "/disk", MS_RDONLY, "noload");
	mounted("tmpfs", "/rw", 0, size);
	mkdir("/rw/upper", 0755);
	mkdir("/rw/work", 0755);
	mounted("overlay", "/root", 0, "lowerdir=/disk,upperdir=/rw/upper,workdir=/rw/work");
	mounted("proc", "/root/proc", 0, "");
	mounted("sysfs", "/root/sys", 0, "");
	mounted("devtmpfs", "/root/dev", 0, "");
	mounted("tmpfs", "/root/dev/shm", 0, "mode=1777");
	mounted("devpts", "/root/dev/pts", 0, "");
	mounted("tmpfs", "/root/tmp", 0, "mode=1777");
	if (read_only)
		mounted("overlay", "/root", MS_REMOUNT | MS_RDONLY, "");
	mounted("tmpfs", STREAMS, 0, size); /* what a command writes fills this, and not the rest */
}

/* For the next command; of what the last one left there, a part may be in use. */
static void fresh_tmp(void)
{
	DIR *tmp = opendir("/root/tmp");
	int n = 0;

	while (tmp && readdir(tmp))
		n++;
	closedir(tmp);
	if (n <= 2) /* itself and its parent */
		return;
	check(umount2("/root/tmp", MNT_DETACH), "/tmp");
	mounted("tmpfs", "/root/tmp", 0, "mode=1777");
}

int main(int argc, char **argv)
{
	char **words;
	int n = 0;

	if (argc == 2) {
		wait_for_disk();
		return 0;
	}
	if (argc != 7)
		give_up("wrong usage");
	struct place place = { "/root", *argv[2] == '1', (uid_t)atol(argv[4]), (gid_t)atol(argv[5]) };
	set_clock_and_reseed(argv[6]);
	mount_root(*argv[1] == '1', argv[3]);
	keep_kernel_log(0);
	while ((words = next_command())) {
		int status = run(&place, words);

		keep_command(++n, status);
		fresh_tmp();
		fprintf(stderr, "vm: command %d: status %d\n", n, status);
	}
	keep_end(n);
	sync();
	fputs("vm: done\n", stderr);
	tcdrain(2);
	reboot(RB_POWER_OFF);
}
