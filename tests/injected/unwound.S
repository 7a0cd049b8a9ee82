/*
 * Two call sites of each function, described as compilers do it: after NAME_plain no register but
 * rax is missed, after NAME_kept all are.
 */
	.macro	SITE name, address, cleared:vararg
	.globl	\name
	.type	\name, @function
\name:
	.cfi_startproc
	push	%rbx
	.cfi_def_cfa_offset 16
	.cfi_offset rbx, -16
	mov	$\address, %rax
	call	*%rax
	.irp	register, \cleared
	.ifnb	\register
	xor	%\register, %\register
	.endif
	.endr
	pop	%rbx
	.cfi_def_cfa_offset 8
	ret
	.cfi_endproc
	.size	\name, . - \name
	.endm

	.macro	SITES name, address
	SITE	\name\()_plain, \address, ecx, edx, esi, edi, r8d, r9d, r10d, r11d
	SITE	\name\()_kept, \address
	.endm

	.text
	SITES	gettimeofday, 0xffffffffff600000
	SITES	time, 0xffffffffff600400
	SITES	getcpu, 0xffffffffff600800

	.section .note.GNU-stack, "", @progbits
