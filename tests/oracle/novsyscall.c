/* novsyscall: runs a program so that any call to the vsyscall page kills it.
 *
 * usage: novsyscall PROGRAM [ARGUMENT...]
 *        novsyscall --probe
 *
 * The kernel's emulation of the page runs seccomp filters, with the address in the page as
 * instruction pointer. The filter set here kills the process (SIGSYS, shell status 159)
 * if that pointer is in the page, and is inherited by everything that the program
 * starts. Run by root it is set without no_new_privs, so that setuid programs and a docker
 * engine work under it.
 *
 * --probe calls the page unfiltered and filtered, in children: status 0 where the first
 * lives and the second is killed, else 1 with the reason; where the host does not serve
 * the page (vsyscall=none) a caller dies of SIGSEGV (139) without any filter.
 *
 * Exit status as env(1): that of the program; 125 the filter cannot be set; 126 the
 * program cannot be executed; 127 it is not there. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "page.h"

#define PAGE_TIME 0xffffffffff600400ul

/* call_page returns the signal that a call to the page's time() ends a child with, 0 for
 * none, or -1 if that could not be tried. */
static int call_page(int filtered)
{
	const struct rlimit no_core = {0, 0};
	int status;
	pid_t child = fork();

	if (child == 0) {
		setrlimit(RLIMIT_CORE, &no_core);
		if (filtered && set_filter(SECCOMP_RET_KILL_PROCESS) != 0)
			_exit(125);
		((long (*)(long *))PAGE_TIME)(NULL);
		_exit(0);
	}
	if (child < 0 || waitpid(child, &status, 0) != child)
		return -1;
	if (WIFSIGNALED(status))
		return WTERMSIG(status);
	return WEXITSTATUS(status) == 0 ? 0 : -1;
}

static int probe(void)
{
	int plain = call_page(0), filtered = call_page(1);

	if (plain == SIGSEGV)
		puts("this host does not serve the vsyscall page (vsyscall=none): a call ends in SIGSEGV without any filter");
	else if (plain == 0 && filtered == SIGSYS)
		puts("this host serves the vsyscall page, and the filter kills a call to it");
	else
		printf("the filter does not work here: a call to the vsyscall page ends with signal %d, under the filter with %d (want 0 and %d)\n", plain, filtered, SIGSYS);
	return !(plain == 0 && filtered == SIGSYS);
}

int main(int argc, char **argv)
{
	if (argc == 2 && strcmp(argv[1], "--probe") == 0)
		return probe();
	if (argc < 2 || argv[1][0] == '-') {
		fprintf(stderr, "usage: novsyscall PROGRAM [ARGUMENT...]\n       novsyscall --probe\n");
		return 125;
	}
	if (set_filter(SECCOMP_RET_KILL_PROCESS) != 0) {
		fprintf(stderr, "novsyscall: error: seccomp filter: %s\n", strerror(errno));
		return 125;
	}
	execvp(argv[1], argv + 1);
	int missing = errno == ENOENT;
	fprintf(stderr, "novsyscall: error: %s: %s\n", argv[1], strerror(errno));
	return missing ? 127 : 126;
}
