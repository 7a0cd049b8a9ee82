/*
 * The libc's syscall. Three numbers are handled here (sandbox.c); every other call is passed to the libc
 * with all registers and the stack unchanged, as it may return twice.
 */
#include <sys/syscall.h>

	.text
	.balign	16
	.globl	syscall
	.type	syscall, @function
syscall:
	.cfi_startproc
	cmp	$SYS_rt_sigprocmask, %rdi
	je	vfix_syscall
	cmp	$SYS_prctl, %rdi
	je	vfix_syscall
	cmp	$SYS_seccomp, %rdi
	je	vfix_syscall
	mov	vfix_next_syscall(%rip), %rax
	test	%rax, %rax
	jz	1f
	jmp	*%rax
1:	push	%rdi			# the first time: it is looked up
	push	%rsi
	push	%rdx
	push	%rcx
	push	%r8
	push	%r9
	sub	$8, %rsp
	.cfi_adjust_cfa_offset 56
	call	vfix_find_syscall
	add	$8, %rsp
	pop	%r9
	pop	%r8
	pop	%rcx
	pop	%rdx
	pop	%rsi
	pop	%rdi
	.cfi_adjust_cfa_offset -56
	jmp	*%rax
	.cfi_endproc
	.size	syscall, . - syscall

	.section .note.GNU-stack, "", @progbits
