/* page.h: a seccomp filter for the calls to the vsyscall page, which the kernel's emulation of the page
 * asks like a system call's (vsyscall_64.c), with the address in the page as instruction pointer. */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PAGE_HIGH 0xffffffffu /* VSYSCALL_ADDR, uapi/asm/vsyscall.h, in two halves */
#define PAGE_LOW 0xff600000u
#define IP offsetof(struct seccomp_data, instruction_pointer)

/* BPF loads 32 bits at a time. i386 and x32 system calls never come from the page. */
static struct sock_filter filter[] = {
	BPF_STMT(BPF_LD | BPF_W | BPF_ABS, IP + 4),
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, PAGE_HIGH, 0, 4),
	BPF_STMT(BPF_LD | BPF_W | BPF_ABS, IP),
	BPF_STMT(BPF_ALU | BPF_AND | BPF_K, ~0xfffu),
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, PAGE_LOW, 0, 1),
	BPF_STMT(BPF_RET | BPF_K, 0), /* set_filter puts the action here */
	BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
};

/* set_filter has each call to the page end in an action; it returns 0, or -1 with errno. */
static int set_filter(unsigned action)
{
	struct sock_fprog program = {sizeof filter / sizeof *filter, filter};

	filter[sizeof filter / sizeof *filter - 2].k = action;
	if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) == 0)
		return 0;
	if (errno != EACCES) /* no CAP_SYS_ADMIN: the kernel then requires no_new_privs */
		return -1;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
		return -1;
	return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program);
}
