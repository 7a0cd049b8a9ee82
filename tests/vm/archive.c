/* archive: the results, as cpio(5)'s "new ASCII" format. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/klog.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include "guest.h"

#define READ_CLEAR 4 /* of syslog(2): the kernel's messages since the last such call */

static FILE *whole; /* the kernel's log, of the boot and all commands */
static char *whole_text;
static size_t whole_size;

static void padded(const void *data, size_t size)
{
	static const char zero[3];

	fwrite(data, 1, size, stdout);
	fwrite(zero, 1, -size & 3, stdout);
}

static void entry(const char *name, const void *data, size_t size)
{
	static unsigned inode;
	char header[256];
	int n = snprintf(header, sizeof header, "070701%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%s", ++inode,
			 0100644, 0, 0, 1, 0, (unsigned)size, 0, 0, 0, 0, (unsigned)strlen(name) + 1, 0, name);

	padded(header, n + 1);
	padded(data, size);
}

static const char *of(int n, const char *what)
{
	static char name[32];

	snprintf(name, sizeof name, "%d.%s", n, what);
	return name;
}

static void keep_stream(int n, const char *what)
{
	char path[32];
	struct stat file;
	int fd;

	snprintf(path, sizeof path, STREAMS "%s", what);
	fd = open(path, O_RDONLY);
	if (fd < 0 || fstat(fd, &file) < 0)
		give_up(path);
	void *data = mmap(0, file.st_size + 1, PROT_READ, MAP_PRIVATE, fd, 0);

	if (data == MAP_FAILED)
		give_up(path);
	entry(of(n, what), data, file.st_size);
	munmap(data, file.st_size + 1);
	close(fd);
}

/* Each line of the kernel's begins with its level, as <N>. */
void keep_kernel_log(int n)
{
	static char messages[1 << 20], text[1 << 20];
	int size = klogctl(READ_CLEAR, messages, sizeof messages);
	size_t kept = 0;

	if (size < 0)
		give_up("kernel log");
	for (int i = 0; i < size; i++) {
		if (messages[i] == '<' && (i == 0 || messages[i - 1] == '\n'))
			i += strcspn(messages + i, ">");
		else
			text[kept++] = messages[i];
	}
	if (!whole)
		whole = open_memstream(&whole_text, &whole_size);
	fwrite(text, 1, kept, whole);
	if (n)
		entry(of(n, "kernel"), text, kept);
}

void keep_command(int n, int status)
{
	char text[16];

	entry(of(n, "status"), text, sprintf(text, "%d\n", status));
	keep_stream(n, "stdout");
	keep_stream(n, "stderr");
	keep_kernel_log(n);
}

void keep_end(int n)
{
	char text[16];

	fflush(whole);
	entry("kernel.log", whole_text, whole_size);
	entry("done", text, sprintf(text, "%d\n", n));
	entry("TRAILER!!!", "", 0);
	if (fflush(stdout) || fsync(1))
		give_up("results");
}
