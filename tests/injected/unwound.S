/*
 * Two call sites of each function, described as compilers do it: after NAME_plain no register but
 * rax is missed, after NAME_kept all are.
 */
	.macro	SITES name, address
	.globl	\name\()_plain
	.type	\name\()_plain, @function
\name\()_plain:
	.cfi_startproc
	push	%rbx
	.cfi_def_cfa_offset 16
	.cfi_offset rbx, -16
	mov	$\address, %rax
	call	*%rax
	xor	%ecx, %ecx
	xor	%edx, %edx
	xor	%esi, %esi
	xor	%edi, %edi
	xor	%r8d, %r8d
	xor	%r9d, %r9d
	xor	%r10d, %r10d
	xor	%r11d, %r11d
	pop	%rbx
	.cfi_def_cfa_offset 8
	ret
	.cfi_endproc
	.size	\name\()_plain, . - \name\()_plain

	.globl	\name\()_kept
	.type	\name\()_kept, @function
\name\()_kept:
	.cfi_startproc
	push	%rbx
	.cfi_def_cfa_offset 16
	.cfi_offset rbx, -16
	mov	$\address, %rax
	call	*%rax
	pop	%rbx
	.cfi_def_cfa_offset 8
	ret
	.cfi_endproc
	.size	\name\()_kept, . - \name\()_kept
	.endm

	.text
	SITES	gettimeofday, 0xffffffffff600000
	SITES	time, 0xffffffffff600400
	SITES	getcpu, 0xffffffffff600800

	.section .note.GNU-stack, "", @progbits
