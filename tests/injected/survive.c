/* survive: calls the page's functions where the injected segment could be in the way: of
 * .bss and brk, on an alternate signal stack, in children of fork and vfork; with -s also
 * in a child that may make no system call but exit.
 *
 * Exit status: 0, or which step went wrong. */
#define _GNU_SOURCE
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include "calls.h"

#ifndef BSS
#define BSS 5000 /* bytes */
#endif
#define HEAP 100000

static unsigned char bss[BSS];
static volatile int wrong_in_handler = -1;

static void handler(int number)
{
	(void)number;
	wrong_in_handler = wrong_call();
}

static int is_zero(const unsigned char *p, size_t n)
{
	while (n > 0 && !p[n - 1])
		n--;
	return n == 0;
}

static int wrong_memory(void)
{
	unsigned char *old = sbrk(0), *heap;

	if (!is_zero(bss, sizeof bss))
		return 10;
	memset(bss, 1, sizeof bss);
	heap = sbrk(HEAP);
	if (heap != old || !is_zero(heap, HEAP))
		return 11;
	memset(heap, 2, HEAP);
	return wrong_call() ? 12 : 0;
}

static int wrong_on_alternate_stack(void)
{
	struct sigaction action = { .sa_handler = handler, .sa_flags = SA_ONSTACK };
	stack_t stack = { .ss_size = (size_t)sysconf(_SC_MINSIGSTKSZ) + 1024 };

	stack.ss_sp = malloc(stack.ss_size);
	if (!stack.ss_sp || sigaltstack(&stack, NULL) || sigaction(SIGUSR1, &action, NULL) || raise(SIGUSR1))
		return 20;
	return wrong_in_handler ? 21 : 0;
}

static int failed(pid_t child)
{
	int status;

	return child < 0 || waitpid(child, &status, 0) != child || status;
}

static int wrong_in_vfork(void)
{
	pid_t child = vfork();

	if (child == 0)
		_exit(wrong_call());
	return failed(child) ? 30 : 0;
}

static int wrong_in_fork(void)
{
	pid_t child = fork();

	if (child == 0)
		_exit(wrong_call());
	return failed(child) ? 31 : 0;
}

/* Not SECCOMP_MODE_STRICT: that also forbids rdtsc, and with it any gettimeofday. */
static int wrong_in_sandbox(void)
{
	struct sock_filter only_exit[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0), /* seccomp_data.nr */
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL),
	};
	struct sock_fprog filter = { sizeof only_exit / sizeof *only_exit, only_exit };
	pid_t child = fork();

	if (child == 0) {
		if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter))
			_exit(1);
		syscall(SYS_exit, wrong_call());
	}
	return failed(child) ? 32 : 0;
}

int main(int argc, char **argv)
{
	int wrong = wrong_call();

	if (!wrong)
		wrong = wrong_memory();
	if (!wrong)
		wrong = wrong_on_alternate_stack();
	if (!wrong)
		wrong = wrong_in_vfork();
	if (!wrong)
		wrong = wrong_in_fork();
	if (!wrong && argc > 1 && strcmp(argv[1], "-s") == 0)
		wrong = wrong_in_sandbox();
	return wrong;
}
