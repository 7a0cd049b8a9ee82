/*
 * The entry for SIGSEGV from the kernel, and the return address of handlers.
 *
 * The program's handler gets the kernel's stack and returns to vfix_restorer: to the handler, gdb and unwinders
 * this looks like a direct call. They know the frame by the restorer's instructions, as it has no unwind table.
 */
#include <sys/syscall.h>

	.text

	/* in: edi signal, rsi siginfo, rdx ucontext; (%rsp) the program's action (preload.h)
	 * out: to the program's handler with the same arguments, or back to the interrupted code
	 * stack: 24 bytes, and that of vfix_on_signal */
	.balign	16
	.globl	vfix_entry
	.hidden	vfix_entry
	.type	vfix_entry, @function
vfix_entry:
	mov	(%rsp), %rcx		# fourth argument: the program's action
	lea	vfix_restorer(%rip), %rax
	mov	%rax, (%rsp)		# where a handler returns to
	push	%rdi			# three pushes: the call finds an aligned stack
	push	%rsi
	push	%rdx
	call	vfix_on_signal		# rax: the handler to run, or 0
	pop	%rdx
	pop	%rsi
	pop	%rdi
	test	%rax, %rax
	jz	1f
	jmp	*%rax
1:	ret
	.size	vfix_entry, . - vfix_entry

	.balign	16
	nop				# unwinders look up the byte before a return address
	.globl	vfix_restorer
	.hidden	vfix_restorer
	.type	vfix_restorer, @function
vfix_restorer:
	mov	$SYS_rt_sigreturn, %rax	# in: rsp points to the ucontext; does not return
	syscall
	.size	vfix_restorer, . - vfix_restorer

	.section .note.GNU-stack, "", @progbits
