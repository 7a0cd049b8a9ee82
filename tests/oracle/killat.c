/* killat: runs a program, and kills a process of it as it enters a system call, or lets that call fail.
 *
 * usage: killat [-e ERROR] CALL N PROGRAM [ARGUMENT...]
 *
 * With -e the N-th such call of all processes of the program together is not made and returns that error (a number of errno),
 * once; "killat: failed" on stderr says that it came so far. Without:
 *
 * The process is ended by SIGKILL before the N-th such call of one of its threads is made; calls
 * before the program's own execve do not count. Its children, and what else runs, go on. strace can do
 * the same (inject=CALL:signal=KILL:when=N), but stops at every call: here a seccomp filter stops at
 * this one alone.
 *
 * Exit status: that of the program, 128+N if signal N ended it; 125 for an error of this program's own;
 * 126 the program cannot be executed; 127 it is not there. */
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#define EVENTS (PTRACE_O_TRACECLONE | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK | PTRACE_O_TRACEEXEC | \
		PTRACE_O_TRACESECCOMP | PTRACE_O_EXITKILL)
#define THREADS 4096 /* of all that runs, at most */
#define CALL(name) { #name, SYS_##name }

static const struct {
	const char *name;
	unsigned number;
} names[] = {
	CALL(openat), CALL(write), CALL(pwrite64), CALL(copy_file_range), CALL(sendfile), CALL(splice),
	CALL(fsync), CALL(fchmod), CALL(fchmodat), CALL(fchown), CALL(fchownat), CALL(fsetxattr),
	CALL(utimensat), CALL(mkdirat), CALL(linkat), CALL(symlinkat), CALL(renameat), CALL(renameat2),
	CALL(unlinkat), CALL(ftruncate), CALL(flock), CALL(execve),
	CALL(unshare), CALL(setns), CALL(mount), CALL(open_tree), CALL(move_mount), CALL(mount_setattr), CALL(fsmount),
	CALL(mknodat), CALL(read), CALL(pread64), CALL(fstat), CALL(newfstatat), CALL(getdents64), CALL(mmap), CALL(clone), CALL(fchdir),
	CALL(readlinkat), CALL(lseek), CALL(close), CALL(flistxattr), CALL(lgetxattr), CALL(fgetxattr), CALL(statfs), CALL(pipe2), CALL(socket),
	CALL(openat2),
};

static struct {
	pid_t id;
	unsigned long calls;
} threads[THREADS];

static int broken(const char *what)
{
	fprintf(stderr, "killat: %s: %s\n", what, strerror(errno));
	return 125;
}

/* become is the child: waits to be traced, then is the program, with the filter. */
static int become(unsigned number, char **argv)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_X86_64, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRACE),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog filter = { sizeof code / sizeof *code, code };
	if (ptrace(PTRACE_TRACEME, 0, 0, 0))
		return broken("ptrace");
	raise(SIGSTOP);
	if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter))
		return broken("seccomp");
	execvp(argv[0], argv);
	fprintf(stderr, "killat: %s: %s\n", argv[0], strerror(errno));
	return errno == ENOENT ? 127 : 126;
}

/* count adds a call of a thread, and returns how many it has made. */
static unsigned long count(pid_t id)
{
	int i;
	for (i = 0; i < THREADS - 1 && threads[i].id && threads[i].id != id; i++)
		;
	threads[i].id = id;
	return ++threads[i].calls;
}

/* signal_of is the signal that a stopped thread is to get, 0 for none: see traps.c. */
static int signal_of(pid_t id, int status)
{
	siginfo_t info;
	int signal = WSTOPSIG(status);
	if (status >> 16 || ptrace(PTRACE_GETSIGINFO, id, 0, &info))
		return 0;
	return signal == SIGSTOP && info.si_pid == 0 ? 0 : signal;
}

/* fail makes the call that a thread enters none, with an error. */
static int fail(pid_t id, int error)
{
	struct user_regs_struct r;
	if (ptrace(PTRACE_GETREGS, id, 0, &r))
		return -1;
	r.orig_rax = -1;
	r.rax = -error;
	return ptrace(PTRACE_SETREGS, id, 0, &r) || ptrace(PTRACE_CONT, id, 0, 0);
}

static int follow(pid_t first, unsigned long when, int error)
{
	int status, result = 125, begun = 0, done = 0;
	unsigned long calls = 0;
	pid_t id;
	while ((id = waitpid(-1, &status, __WALL)) > 0) {
		if (!WIFSTOPPED(status)) {
			if (id == first)
				result = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
			continue;
		}
		begun |= status >> 16 == PTRACE_EVENT_EXEC;
		if (begun && error && status >> 16 == PTRACE_EVENT_SECCOMP && ++calls == when) {
			done = 1;
			if (fail(id, error))
				return broken("fail");
		} else if (begun && !error && !done && status >> 16 == PTRACE_EVENT_SECCOMP && count(id) == when) {
			done = 1;
			if (kill(id, SIGKILL)) /* the whole process, by any of its threads */
				return broken("kill");
		} else if (ptrace(PTRACE_CONT, id, 0, signal_of(id, status)) && errno != ESRCH) {
			return broken("ptrace");
		}
	}
	if (error && done)
		fputs("killat: failed\n", stderr);
	return result;
}

int main(int argc, char **argv)
{
	unsigned i;
	int status, error = 0;
	if (argc > 3 && !strcmp(argv[1], "-e")) {
		error = atoi(argv[2]);
		argv += 2;
		argc -= 2;
	}
	for (i = 0; argc > 3 && i < sizeof names / sizeof *names && strcmp(names[i].name, argv[1]); i++)
		;
	if (argc < 4 || i == sizeof names / sizeof *names || atol(argv[2]) < 1) {
		fputs("usage: killat [-e ERROR] CALL N PROGRAM [ARGUMENT...]\n", stderr);
		return 125;
	}
	pid_t pid = fork();
	if (pid < 0)
		return broken("fork");
	if (pid == 0)
		_exit(become(names[i].number, argv + 3));
	if (waitpid(pid, &status, 0) != pid || !WIFSTOPPED(status))
		return WIFEXITED(status) ? WEXITSTATUS(status) : 125;
	if (ptrace(PTRACE_SETOPTIONS, pid, 0, EVENTS) || ptrace(PTRACE_CONT, pid, 0, 0))
		return broken("ptrace");
	return follow(pid, atol(argv[2]), error);
}
