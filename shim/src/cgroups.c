/*
 * Whether a JDK would wrongly conclude from /proc/cgroups that it is not in a container. Kernels without
 * the controllers of cgroup v1 (CONFIG_MEMCG_V1, CONFIG_CPUSETS_V1) do not list them there, even if cgroup
 * v2 has them.
 */
#include <fcntl.h>
#include <stddef.h>
#include <sys/vfs.h>
#include "cgroups.h"
#include "syscall.h"

#define CGROUP2_SUPER_MAGIC 0x63677270	/* include/uapi/linux/magic.h */

/* More than either file has on known kernels: 14 lines of less than 40 bytes. */
#define LIST_SIZE 2048

/* Reads up to LIST_SIZE bytes of a file, 0 after an error; *type is the type of its file system. */
static long read_list(const char *path, char *list, long *type)
{
	struct statfs fs = {0};
	long n = 0, more, fd = syscall3(SYS_open, (long)path, O_RDONLY | O_CLOEXEC, 0);

	*type = 0;
	if (fd < 0)
		return 0;
	do {
		more = syscall3(SYS_read, fd, (long)(list + n), LIST_SIZE - n);
		if (more > 0)
			n += more;
	} while (more > 0);
	if (!syscall3(SYS_fstatfs, fd, (long)&fs, 0))
		*type = fs.f_type;
	syscall1(SYS_close, fd);
	return n;
}

/* Whether the list has a word between blanks. */
static int lists(const char *list, long n, const char *word)
{
	for (long i = 0; i < n; i++) {
		long k = 0;

		while (i + k < n && list[i + k] == word[k] && word[k])
			k++;
		if (!word[k] && (i + k == n || list[i + k] <= ' '))
			return 1;
		while (i < n && list[i] > ' ')
			i++;
	}
	return 0;
}

int vfix_cgroups_hidden(void)
{
	char list[LIST_SIZE];
	long type, n = read_list("/sys/fs/cgroup/cgroup.controllers", list, &type);

	if (type != CGROUP2_SUPER_MAGIC || !lists(list, n, "cpu") || !lists(list, n, "memory"))
		return 0;
	n = read_list("/proc/cgroups", list, &type); /* after an error, the JDK also gets one */
	return !(lists(list, n, "cpuset") && lists(list, n, "cpu") &&
		 lists(list, n, "cpuacct") && lists(list, n, "memory"));
}

/* Behind the pointers of the state page; "/proc/cgroups" in the file. */
extern char vfix_string[] __attribute__((visibility("hidden")));

void vfix_cgroups_redirect(void)
{
	static const char path[] = "/vfix/cgroups";

	for (unsigned i = 0; i < sizeof path; i++)
		*(volatile char *)&vfix_string[i] = path[i];
}
