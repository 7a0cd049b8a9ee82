/* interpreter: what a PT_INTERP names, with a call site and a .bss of many pages. It checks
 * both and ends the process; the program behind it never runs. Built without a libc.
 *
 * Exit status 0; 1: .bss is not zero; 2: the call gave nonsense. */
#include <sys/syscall.h>
#include "calls.h"

static volatile unsigned char bss[200000];
static volatile int data[4] = { 1, 2, 3, 4 }; /* the .bss begins inside a page of the file */

__asm__(".globl _start\n"
	".type _start, @function\n"
	"_start:\n"
	"	and	$-16, %rsp\n"
	"	call	begin\n"
	".size _start, . - _start\n");

/* A function that can become a system call. */
__asm__(".globl time_whole\n"
	".type time_whole, @function\n"
	"time_whole:\n"
	"	sub	$8, %rsp\n"
	"	mov	$0xffffffffff600400, %rax\n"
	"	call	*%rax\n"
	"	add	$8, %rsp\n"
	"	ret\n"
	".size time_whole, . - time_whole\n");
long time_whole(long *);

__attribute__((visibility("hidden"), used, noreturn)) void begin(void)
{
	long status = 0;

	for (unsigned i = 0; i < sizeof bss; i++)
		if (bss[i])
			status = 1;
	bss[sizeof bss - 1] = (unsigned char)data[0];
	if (!status && time_whole(NULL) < YEAR_2020)
		status = 2;
	for (;;)
		__asm__ volatile ("syscall" : : "a"(SYS_exit_group), "D"(status) : "rcx", "r11", "memory");
}
