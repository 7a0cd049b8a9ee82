/*
 * The facts in /proc about a task. Its directory is kept open, as the tracer may get another root than the
 * task. Without /proc, calls are performed but sites are not healed.
 */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "trace.h"

static int proc = -1;

/* /proc may belong to another PID namespace, in which the same number is another process. */
void proc_open(void)
{
	char self[16] = "";

	proc = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (proc >= 0 && (readlinkat(proc, "self", self, sizeof self - 1) < 0 || atoi(self) != getpid())) {
		close(proc);
		proc = -1;
	}
}

/* The user and group of the task if its real, effective and saved IDs are equal; else 0. */
static int ids_of(pid_t tid, uint32_t ids[2])
{
	static const char *const names[] = { "\nUid:", "\nGid:" };
	char text[4096];

	text[proc_read(tid, "status", text, sizeof text - 1)] = 0;
	for (int i = 0; i < 2; i++) {
		char *at = strstr(text, names[i]);

		if (!at)
			return 0;
		at += strlen(names[i]);
		ids[i] = (uint32_t)strtoul(at, &at, 10);
		if (strtoul(at, &at, 10) != ids[i] || strtoul(at, &at, 10) != ids[i])
			return 0;
	}
	return 1;
}

int proc_fd(pid_t tid, const char *name)
{
	uint32_t ids[2];
	char path[64];

	if (proc < 0)
		return -1;
	snprintf(path, sizeof path, "%d/%s", (int)tid, name);
	int fd = openat(proc, path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 && (errno == EACCES || errno == EPERM) && ids_of(tid, ids))
		fd = open_as_user(proc, path, O_RDONLY, ids);
	return fd;
}

size_t proc_read(pid_t tid, const char *name, void *buffer, size_t size)
{
	int fd = proc_fd(tid, name);
	size_t done = 0;

	if (fd < 0)
		return 0;
	for (ssize_t n; done < size && (n = read(fd, (char *)buffer + done, size - done)) > 0; )
		done += (size_t)n;
	close(fd);
	return done;
}

int proc_mapping(pid_t tid, uintptr_t address, struct mapping *m)
{
	int fd = proc_fd(tid, "maps");
	int found = fd >= 0 && vfix_find_mapping(fd, address, m);

	if (fd >= 0)
		close(fd);
	return found;
}

struct start_values proc_start_values(pid_t tid)
{
	struct vfix_auxv auxv[64];	/* more than the kernel's own vector has (AT_VECTOR_SIZE) */
	struct start_values values = { 0 };
	size_t n = proc_read(tid, "auxv", auxv, sizeof auxv) / sizeof *auxv;

	for (size_t i = 0; i < n; i++)
		if (auxv[i].type == AT_SYSINFO_EHDR)
			values.vdso = auxv[i].value;
		else if (auxv[i].type == AT_BASE)
			values.interpreter = auxv[i].value;
		else if (auxv[i].type == AT_ENTRY)
			values.entry = auxv[i].value;
	return values;
}

/* The text from a field of proc(5)'s stat on, "" if missing. Fields are counted after the second one, a
 * name that may have any characters. */
static const char *stat_field(pid_t tid, int number)
{
	static char text[1024];
	char path[64];

	snprintf(path, sizeof path, "task/%d/stat", (int)tid);
	text[proc_read(tid, path, text, sizeof text - 1)] = 0;
	char *field = strrchr(text, ')');
	for (int i = 2; field && i < number; i++)
		field = strchr(field + 1, ' ');
	return field ? field + 1 : "";
}

int proc_cpu(pid_t tid)
{
	const char *cpu = stat_field(tid, 39);

	return *cpu ? atoi(cpu) : -1;
}

int proc_is_stopped(pid_t tid)
{
	return stat_field(tid, 3)[0] == 'T';
}

int proc_is_dead(pid_t tid)
{
	char state = stat_field(tid, 3)[0];

	return state == 'Z' || state == 'X';
}

/* The number after "Name:" in the task's status; 0 if the line is missing. */
static long status_field(pid_t tid, const char *name)
{
	char text[4096];
	size_t n = proc_read(tid, "status", text, sizeof text - 1);

	text[n] = 0;
	const char *line = strstr(text, name);
	return line ? atol(line + strlen(name)) : 0;
}

int proc_is_thread(pid_t tid)
{
	long process = status_field(tid, "\nTgid:");

	return process && process != tid;
}

int proc_has_signal(pid_t tid)
{
	static const char *const names[] = { "\nSigPnd:", "\nShdPnd:", "\nSigBlk:" };
	unsigned long sets[3] = { 0 };
	char text[4096];

	text[proc_read(tid, "status", text, sizeof text - 1)] = 0;
	for (int i = 0; i < 3; i++) {
		const char *line = strstr(text, names[i]);
		sets[i] = line ? strtoul(line + strlen(names[i]), NULL, 16) : 0;
	}
	return ((sets[0] | sets[1]) & ~sets[2]) != 0;
}

int proc_is_traced(void)
{
	proc_open();
	return status_field(getpid(), "\nTracerPid:") != 0;
}

/* Linux before 5.9 reports only the mode, so a filter in addition to the container's is not detected. */
int proc_is_sandboxed(pid_t tid)
{
	static const char *const names[] = { "\nSeccomp:", "\nSeccomp_filters:" };
	static long own[] = { -1, -1 };

	for (int i = 0; i < 2; i++) {
		if (own[i] < 0)
			own[i] = status_field(getpid(), names[i]);
		if (status_field(tid, names[i]) > own[i])
			return 1;
	}
	return 0;
}
