// atcrash COMMAND WORD... -- PROGRAM ARGUMENT...: starts PROGRAM, and when the kernel sends
// it a SIGSEGV keeps it stopped there and runs COMMAND WORD... PID. Ends with the status of
// COMMAND, or with 99 where PROGRAM does not crash.
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

enum { no_crash = 99, broken = 98 };

static int run_command(char **command, int words, pid_t pid)
{
	char number[24];
	snprintf(number, sizeof(number), "%d", (int)pid);
	char **argv = calloc((size_t)words + 2, sizeof(*argv));
	if (!argv)
		return broken;
	memcpy(argv, command, (size_t)words * sizeof(*argv));
	argv[words] = number;
	pid_t child = fork();
	if (child == 0) {
		execvp(argv[0], argv);
		perror(argv[0]);
		_exit(broken);
	}
	int status;
	if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status))
		return broken;
	return WEXITSTATUS(status);
}

int main(int argc, char **argv)
{
	int dashes = 1;
	while (dashes < argc && strcmp(argv[dashes], "--"))
		dashes++;
	if (dashes < 2 || dashes + 1 >= argc) {
		fprintf(stderr, "usage: atcrash COMMAND WORD... -- PROGRAM ARGUMENT...\n");
		return broken;
	}
	pid_t pid = fork();
	if (pid == 0) {
		ptrace(PTRACE_TRACEME, 0, 0, 0);
		execvp(argv[dashes + 1], argv + dashes + 1);
		perror(argv[dashes + 1]);
		_exit(broken);
	}
	int status;
	while (pid > 0 && waitpid(pid, &status, 0) == pid && WIFSTOPPED(status)) {
		int sig = WSTOPSIG(status);
		if (sig == SIGSEGV) {
			int result = run_command(argv + 1, dashes - 1, pid);
			kill(pid, SIGKILL);
			waitpid(pid, &status, 0);
			return result;
		}
		ptrace(PTRACE_CONT, pid, 0, sig == SIGTRAP ? 0 : sig);
	}
	return no_crash;
}
