/* The tracer's access to a task's memory. */
#include <errno.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <unistd.h>
#include "trace.h"

#define FEW_WORDS 128	/* bytes up to which word by word is faster than through a file */

/* Word by word, for kernels and seccomp filters without process_vm_readv. */
static int peek(pid_t tid, uintptr_t from, char *to, size_t size)
{
	for (size_t done = 0; done < size; done += sizeof(long)) {
		size_t n = size - done < sizeof(long) ? size - done : sizeof(long);
		/* The last word ends with the range: what is behind it may not be mapped. */
		size_t before = n < sizeof(long) && size >= sizeof(long) ? sizeof(long) - n : 0;

		errno = 0;
		long word = ptrace(PTRACE_PEEKDATA, tid, from + done - before, 0L);
		if (errno)
			return 0;
		memcpy(to + done, (char *)&word + before, n);
	}
	return 1;
}

/* Through the file, for sizes that are slow word by word; it is readable even for another user's task. */
static int read_file(pid_t tid, uintptr_t from, void *to, size_t size)
{
	int fd = proc_fd(tid, "mem");

	if (fd < 0)
		return 0;
	ssize_t n = pread(fd, to, size, (off_t)from);
	close(fd);
	return n == (ssize_t)size;
}

int memory_read(pid_t tid, uintptr_t from, void *to, size_t size)
{
	struct iovec here = { to, size }, there = { (void *)from, size };
	ssize_t n = process_vm_readv(tid, &here, 1, &there, 1, 0);

	if (n < 0 && errno != EFAULT)
		return size > FEW_WORDS ? read_file(tid, from, to, size) || peek(tid, from, to, size) : peek(tid, from, to, size);
	return n == (ssize_t)size;
}

int vfix_read(struct task *t, uintptr_t from, void *to, size_t size)
{
	return memory_read(t->tid, from, to, size);
}

int vfix_put(struct task *t, uintptr_t to, const void *from, size_t size)
{
	return memory_poke(t->tid, to, from, size);
}

/* Writes even if the task itself may not: private code is copied first. */
int memory_poke(pid_t tid, uintptr_t to, const void *from, size_t size)
{
	for (size_t done = 0; done < size; done += sizeof(long)) {
		size_t n = size - done < sizeof(long) ? size - done : sizeof(long);
		long word = 0;

		if (n < sizeof word && !peek(tid, to + done, (char *)&word, sizeof word))
			return 0;
		memcpy(&word, (const char *)from + done, n);
		if (ptrace(PTRACE_POKEDATA, tid, to + done, word))
			return 0;
	}
	return 1;
}

int memory_write(pid_t tid, uintptr_t to, const void *from, size_t size)
{
	struct iovec here = { (void *)from, size }, there = { (void *)to, size };
	ssize_t n = process_vm_writev(tid, &here, 1, &there, 1, 0);

	if (n < 0 && errno != EFAULT)
		return memory_poke(tid, to, from, size);
	return n == (ssize_t)size;
}
