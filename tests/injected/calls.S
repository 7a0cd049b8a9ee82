/*
 * A call site of each form: time_entry is a whole stub, gettimeofday_call has mov and call
 * adjacent, getcpu_lea has them apart.
 */
	.text
	.globl	time_entry
	.type	time_entry, @function
time_entry:				/* long time_entry(long *) */
	sub	$8, %rsp
	mov	$0xffffffffff600400, %rax
	call	*%rax
	add	$8, %rsp
	ret
	.size	time_entry, . - time_entry

	.globl	gettimeofday_call
	.type	gettimeofday_call, @function
gettimeofday_call:			/* int gettimeofday_call(struct timeval *, void *) */
	push	%rbx
	mov	$0xffffffffff600000, %rax
	call	*%rax
	pop	%rbx
	ret
	.size	gettimeofday_call, . - gettimeofday_call

	.globl	getcpu_lea
	.type	getcpu_lea, @function
getcpu_lea:				/* int getcpu_lea(unsigned *cpu, unsigned *node) */
	push	%r13
	mov	$0xffffffffff600800, %r13
	xor	%edx, %edx
	call	*%r13
	pop	%r13
	ret
	.size	getcpu_lea, . - getcpu_lea

	.section .note.GNU-stack, "", @progbits
