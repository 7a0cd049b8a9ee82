/* A thread for work that a concurrently forked child must not share. */
#include <sys/syscall.h>

	/* linux/sched.h: VM, FS, SIGHAND, VFORK, THREAD, SYSVSEM; not FILES */
#define FLAGS 0x100 + 0x200 + 0x800 + 0x4000 + 0x10000 + 0x40000

	.text

	/*
	 * in: rdi function, rsi its argument; out: rax tid or error; clobbers as a call
	 * stack: none; the thread has its own, for one caller at a time. The caller
	 * continues when the thread has ended.
	 */
	.balign	16
	.globl	vfix_in_thread
	.hidden	vfix_in_thread
	.type	vfix_in_thread, @function
vfix_in_thread:
	.cfi_startproc
	mov	%rdi, %r9
	mov	%rsi, %rdx		# for a tid, which is not asked for
	mov	$FLAGS, %edi
	lea	stack_end(%rip), %rsi	# aligned: the call below leaves it as C requires
	xor	%r10d, %r10d
	xor	%r8d, %r8d
	mov	$SYS_clone, %eax
	syscall
	test	%eax, %eax
	jz	1f
	ret
1:	mov	%rdx, %rdi
	call	*%r9
	xor	%edi, %edi
	mov	$SYS_exit, %eax
	syscall
	hlt
	.cfi_endproc
	.size	vfix_in_thread, . - vfix_in_thread

	/* in: rdi function, rsi its argument; calls it on that stack. For one caller at a time. */
	.balign	16
	.globl	vfix_beside
	.hidden	vfix_beside
	.type	vfix_beside, @function
vfix_beside:
	.cfi_startproc
	push	%rbp
	.cfi_adjust_cfa_offset 8
	.cfi_rel_offset %rbp, 0
	mov	%rsp, %rbp
	.cfi_def_cfa_register %rbp
	lea	stack_end(%rip), %rsp
	mov	%rdi, %rax
	mov	%rsi, %rdi
	call	*%rax
	mov	%rbp, %rsp
	pop	%rbp
	.cfi_def_cfa %rsp, 8
	ret
	.cfi_endproc
	.size	vfix_beside, . - vfix_beside

	.bss
	.balign	16
	.skip	8192
stack_end:

	.section .note.GNU-stack, "", @progbits
