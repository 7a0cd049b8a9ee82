/*
 * Performs the function of the page, for a task that called it on a kernel without the page. The task
 * continues at its return address: only rax, rip and rsp change, and no stack is used.
 *
 * The rules are the kernel's (arch/x86/entry/vsyscall/vsyscall_64.c): NULL is not written to; a pointer
 * that cannot be written to is a SIGSEGV of the task, with rip in the page; so is any address of the page
 * except the three entries.
 */
#include <sched.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>
#include "trace.h"

/* Writes if the pointer is not NULL. Returns the pointer if it is bad, else 0. */
static uintptr_t put(pid_t tid, uintptr_t pointer, const void *from, size_t size)
{
	return !pointer || memory_write(tid, pointer, from, size) ? 0 : pointer;
}

/* System calls, not the vDSO: the calls before and after this one may be from the coarse clock. */
static uintptr_t do_gettimeofday(pid_t tid, const struct user_regs_struct *regs)
{
	struct timeval now;
	struct timezone zone;
	uintptr_t bad;

	syscall(SYS_gettimeofday, &now, &zone);
	bad = put(tid, regs->rdi, &now, sizeof now);
	return bad ? bad : put(tid, regs->rsi, &zone, sizeof zone);
}

static uintptr_t do_time(pid_t tid, const struct user_regs_struct *regs, long *result)
{
	*result = syscall(SYS_time, NULL);
	return put(tid, regs->rdi, result, sizeof *result);
}

/* The node of a processor: only code that runs there can query the kernel for it. */
static unsigned node_of(int cpu)
{
	cpu_set_t before, one;
	unsigned node = 0;

	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	if (sched_getaffinity(0, sizeof before, &before) || sched_setaffinity(0, sizeof one, &one))
		return 0; /* a processor that this process may not use: most machines have one node */
	syscall(SYS_getcpu, NULL, &node, NULL);
	sched_setaffinity(0, sizeof before, &before);
	return node;
}

/* The processor on which the task stopped, or without /proc one on which it may run. */
static int cpu_of(pid_t tid)
{
	cpu_set_t allowed;
	int cpu = proc_cpu(tid);

	if (cpu >= 0)
		return cpu;
	if (sched_getaffinity(tid, sizeof allowed, &allowed))
		return 0;
	for (cpu = 0; cpu < CPU_SETSIZE - 1 && !CPU_ISSET(cpu, &allowed); cpu++)
		;
	return cpu;
}

static uintptr_t do_getcpu(pid_t tid, const struct user_regs_struct *regs)
{
	unsigned cpu = (unsigned)cpu_of(tid);
	uintptr_t bad = put(tid, regs->rdi, &cpu, sizeof cpu);

	if (bad || !regs->rsi)
		return bad;
	unsigned node = node_of((int)cpu);
	return put(tid, regs->rsi, &node, sizeof node);
}

/* Returns the pointer that could not be written to, or 0. */
static uintptr_t perform(pid_t tid, int function, const struct user_regs_struct *regs, long *result)
{
	*result = 0;
	switch (function) {
	case VFIX_GETTIMEOFDAY:
		return do_gettimeofday(tid, regs);
	case VFIX_TIME:
		return do_time(tid, regs, result);
	}
	return do_getcpu(tid, regs);
}

/*
 * The same if the kernel does not let the tracer read the task's memory: the task gave up rights or may not
 * be dumped, and the tracer has no CAP_SYS_PTRACE. The return address is on its stack already: the task
 * continues in the trampoline as if it had called that; or it makes the system call and then returns, both
 * with instructions of its vDSO.
 */
static int fix_unseen(struct task *t, struct user_regs_struct *regs, int function)
{
	static const int number[VFIX_FUNCTIONS] = { SYS_gettimeofday, SYS_time, SYS_getcpu };

	if (t->space->state == MAPPED) {
		regs->rip = trampoline(t->space, function);
	} else {
		if (!vdso_syscall(t->space) || !vdso_return(t->space))
			return 0;
		long result = inject(t, vdso_syscall(t->space), (const long[7]){
			number[function], (long)regs->rdi, function == VFIX_TIME ? 0 : (long)regs->rsi });
		if (result < 0)
			return 0;
		regs->rax = (unsigned long)result;
		regs->rip = vdso_return(t->space);
	}
	regs->orig_rax = ~0ul;
	return !ptrace(PTRACE_SETREGS, t->tid, 0L, regs);
}

int fix_fault(struct task *t)
{
	struct user_regs_struct regs;
	siginfo_t info;
	uintptr_t back, bad;
	long result;

	if (ptrace(PTRACE_GETREGS, t->tid, 0L, &regs))
		return 0;
	int function = vfix_function_at(regs.rip);
	/* A signal that was sent, while the task is about to fault, is not the fault. */
	if (ptrace(PTRACE_GETSIGINFO, t->tid, 0L, &info) || info.si_code <= 0)
		return 0;
	if (function < 0)
		return info.si_code == SI_KERNEL && patch_was_met(t, regs.rip);
	if (!memory_read(t->tid, regs.rsp, &back, sizeof back))
		return fix_unseen(t, &regs, function);
	bad = perform(t->tid, function, &regs, &result);
	if (bad) {
		info.si_addr = (void *)bad;
		info.si_code = SEGV_MAPERR;
		ptrace(PTRACE_SETSIGINFO, t->tid, 0L, &info);
		return 0;
	}
	heal(t, function, back);
	regs.rax = (unsigned long)result;
	regs.rip = back;
	regs.rsp += sizeof back;
	regs.orig_rax = ~0ul; /* do not restart a system call */
	return !ptrace(PTRACE_SETREGS, t->tid, 0L, &regs);
}
