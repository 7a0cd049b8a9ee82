// Throws an exception from a signal handler. The handler returns by a stub of this program's own that
// no unwind table describes, as in old libcs: libgcc knows it by its bytes. It is behind the last
// function that is described. Status 0: the exception was caught.
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

extern "C" long time_plain(long *);
extern "C" void returns_from_signal(void);
__asm__(".section .text_last, \"ax\", @progbits\n"
	".balign 16\n"
	"nop\n" // libgcc looks for a description of the byte before
	"returns_from_signal:\n"
	"	mov $15, %rax\n" // rt_sigreturn
	"	syscall\n"
	".text\n");

struct kernel_action { // arch/x86/include/uapi/asm/signal.h
	void (*handler)(int);
	unsigned long flags;
	void (*restorer)(void);
	unsigned long mask;
};

static void handler(int) { throw 7; }

int main()
{
	const unsigned long restorer = 0x04000000, nodefer = 0x40000000; // SA_RESTORER, SA_NODEFER
	kernel_action action = { handler, restorer | nodefer, returns_from_signal, 0 };

	if (!time_plain(nullptr) || syscall(SYS_rt_sigaction, SIGSEGV, &action, nullptr, 8))
		return 2;
	try {
		*(volatile int *)8 = 7;
	} catch (int thrown) {
		return thrown != 7;
	}
	return 3;
}
