/*
 * The entry for SIGSEGV from the kernel, and the return address of handlers.
 *
 * The program's handler gets the kernel's stack and returns to vfix_restorer: to the handler, gdb and
 * unwinders this looks like a direct call.
 */
#include <sys/syscall.h>

	.text

	/*
	 * in: edi signal, rsi siginfo, rdx ucontext; (%rsp) the program's action (preload.h)
	 * out: to the program's handler with the same arguments, or back to the interrupted
	 * code; stack: 24 bytes, and that of vfix_on_signal
	 */
	.balign	16
	.globl	vfix_entry
	.hidden	vfix_entry
	.type	vfix_entry, @function
vfix_entry:
	.cfi_startproc
	mov	(%rsp), %rcx		# fourth argument: the program's action
	lea	vfix_restorer(%rip), %rax
	mov	%rax, (%rsp)		# where a handler returns to
	push	%rdi			# three pushes: the call finds an aligned stack
	.cfi_adjust_cfa_offset 8
	push	%rsi
	.cfi_adjust_cfa_offset 8
	push	%rdx
	.cfi_adjust_cfa_offset 8
	call	vfix_on_signal		# rax: the handler to run, or 0
	pop	%rdx
	.cfi_adjust_cfa_offset -8
	pop	%rsi
	.cfi_adjust_cfa_offset -8
	pop	%rdi
	.cfi_adjust_cfa_offset -8
	test	%rax, %rax
	jz	1f
	mov	(%rsi), %edi		# si_signo: a stand-in arrives as SIGSEGV
	jmp	*%rax
1:	ret
	.cfi_endproc
	.size	vfix_entry, . - vfix_entry

	/*
	 * Unwinders recognize the frame by the instructions below or by these rules: the saved
	 * registers are in the ucontext that the stack pointer points to, at the offsets of
	 * struct sigcontext after its first 40 bytes (psABI 3.6.2; arch/x86 uapi).
	 * The nop belongs to it: unwinders look up the byte before a return address.
	 */
	.macro	SAVED reg, offset	# DW_CFA_expression, DW_OP_breg7 with a sleb128 of 2 bytes
	.cfi_escape 0x10, \reg, 3, 0x77, (\offset & 0x7f) | 0x80, \offset >> 7
	.endm
	.balign	16
	.cfi_startproc simple
	.cfi_signal_frame
	.cfi_escape 0x0f, 4, 0x77, 0xa0, 0x01, 0x06	# the CFA is the rsp at offset 160
	SAVED	8, 40
	SAVED	9, 48
	SAVED	10, 56
	SAVED	11, 64
	SAVED	12, 72
	SAVED	13, 80
	SAVED	14, 88
	SAVED	15, 96
	SAVED	5, 104			# rdi
	SAVED	4, 112			# rsi
	SAVED	6, 120			# rbp
	SAVED	3, 128			# rbx
	SAVED	1, 136			# rdx
	SAVED	0, 144			# rax
	SAVED	2, 152			# rcx
	SAVED	7, 160			# rsp
	SAVED	16, 168			# rip
	nop
	.globl	vfix_restorer
	.hidden	vfix_restorer
	.type	vfix_restorer, @function
vfix_restorer:
	mov	$SYS_rt_sigreturn, %rax	# in: rsp points to the ucontext; does not return
	syscall
	.cfi_endproc
	.size	vfix_restorer, . - vfix_restorer

	.section .note.GNU-stack, "", @progbits
