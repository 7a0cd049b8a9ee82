/* Whether a way exists, and whether it enters the kernel. See measure.h. */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "measure.h"

enum {
	MARK = 4000,		/* an errno that no kernel uses; the largest is 4095, linux/err.h */
	ENTRY_CALLS = 1000,
};

/* probe SUBJECT: makes one call and prints its result. Without the page it ends with SIGSEGV. */
int probe(char **words)
{
	struct subject s = find_subject(words[0]);

	if (!s.call)
		return STATUS_ABSENT;
	printf("%s %ld\n", s.text, call_once(&s));
	return 0;
}

/* peek: reads the page's first byte. If the page is only executable, it ends with SIGSEGV. */
int peek(char **words)
{
	const volatile uintptr_t page_not = ~0xffffffffff600000ul;

	(void)words;
	printf("peek %#x\n", *(const volatile unsigned char *)~page_not);
	return 0;
}

static void set_filter(struct sock_filter *filter, size_t length)
{
	struct sock_fprog program = { (unsigned short)length, filter };

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
		die("no_new_privs", "");
	if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) != 0)
		die("seccomp filter", "");
}

void install_filter(void)
{
	static struct sock_filter filter[BPF_MAXINSNS];
	size_t have = 0;
	ssize_t n;

	while ((n = read(STDIN_FILENO, (char *)filter + have, sizeof filter - have)) > 0)
		have += (size_t)n;
	if (n < 0)
		die("standard input", "");
	if (have == 0 || have % sizeof *filter != 0)
		bad_usage("the filter on standard input is not a list of instructions", "");
	set_filter(filter, have / sizeof *filter);
}

/*
 * entries SUBJECT...: prints how many of ENTRY_CALLS calls entered the kernel. A filter answers the clock's
 * system calls with MARK, so a call that returns MARK made one.
 */
int entries(char **words)
{
	static struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_gettimeofday, 3, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_time, 2, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getcpu, 1, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clock_gettime, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | MARK),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};

	set_filter(filter, sizeof filter / sizeof *filter);
	for (; *words; words++) {
		struct subject s = find_subject(*words);
		int entered = 0;

		if (!s.call) {
			printf("%s absent\n", s.text);
			continue;
		}
		for (int i = 0; i < ENTRY_CALLS; i++)
			entered += (int)call_once(&s) == -MARK;
		printf("%s %d/%d\n", s.text, entered, ENTRY_CALLS);
	}
	return 0;
}
