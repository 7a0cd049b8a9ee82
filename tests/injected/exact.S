/*
 * exact_NAME(): loads all registers from exact_in, and what is below the stack pointer from
 * exact_below; calls the page; stores all into exact_out and exact_below_after. exact.c has the types.
 */
#define DEPTH 4096

	.macro	GENERAL operation, memory
	.set	at, 0
	.irp	register, rax, rcx, rdx, rbx, rbp, rsi, rdi, r8, r9, r10, r11, r12, r13, r14, r15
	\operation \register, \memory, at
	.set	at, at + 8
	.endr
	.endm

	.macro	VECTOR operation, memory
	.set	at, 128
	.irp	n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
	\operation xmm\n, \memory, at
	.set	at, at + 16
	.endr
	.endm

	.macro	LOAD register, memory, offset
	mov	\memory + \offset(%rip), %\register
	.endm
	.macro	STORE register, memory, offset
	mov	%\register, \memory + \offset(%rip)
	.endm
	.macro	LOADV register, memory, offset
	movups	\memory + \offset(%rip), %\register
	.endm
	.macro	STOREV register, memory, offset
	movups	%\register, \memory + \offset(%rip)
	.endm

	.macro	EXACT name, address
	.globl	exact_\name
	.type	exact_\name, @function
exact_\name:
	push	%rbx
	push	%rbp
	push	%r12
	push	%r13
	push	%r14
	push	%r15
	mov	%rsp, kept(%rip)
	sub	exact_shift(%rip), %rsp
	mov	%rsp, exact_stack(%rip)
	pushq	exact_in + 120(%rip)	# the flags
	popfq
	cld
	lea	exact_below(%rip), %rsi
	lea	-DEPTH(%rsp), %rdi
	mov	$DEPTH, %ecx
	rep movsb
	VECTOR	LOADV, exact_in
	GENERAL	LOAD, exact_in
	/* The flags last, and not by the stack. */
	mov	%rsp, %rax
	lea	flags_end(%rip), %rsp
	pushq	exact_in + 120(%rip)
	popfq
	mov	%rax, %rsp
#ifdef DIRECT
	mov	exact_\name\()_at(%rip), %rax
#else
	mov	$\address, %rax
#endif
	call	*%rax
	GENERAL	STORE, exact_out
	mov	%rsp, %rax
	lea	flags_end(%rip), %rsp
	pushfq
	popq	exact_out + 120(%rip)
	cld
	mov	%rax, %rsp
	VECTOR	STOREV, exact_out
	lea	-DEPTH(%rsp), %rsi
	lea	exact_below_after(%rip), %rdi
	mov	$DEPTH, %ecx
	rep movsb
	mov	kept(%rip), %rsp
	pop	%r15
	pop	%r14
	pop	%r13
	pop	%r12
	pop	%rbp
	pop	%rbx
	ret
	.size	exact_\name, . - exact_\name
	.endm

	.text
	EXACT	gettimeofday, 0xffffffffff600000
	EXACT	time, 0xffffffffff600400
	EXACT	getcpu, 0xffffffffff600800

	.bss
	.balign	16
kept:	.quad	0
	.skip	4096		/* for a signal that comes while the flags are loaded */
flags_end:
	.section .note.GNU-stack, "", @progbits
