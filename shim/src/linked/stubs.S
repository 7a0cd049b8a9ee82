/*
 * The three functions as glibc 2.5 to 2.13 has them, in a library that vfix bench patches in
 * each form and preloads: time is the whole stub; gettimeofday has the errno test behind its
 * call, and sched_getcpu the whole of 2.13's code, without the part that stores errno.
 *
 * PAGE is the page that they call: the kernel's, or the twin that the fallback is measured at.
 */
	.text

	.balign	16
	.globl	time
	.type	time, @function
time:
	sub	$8, %rsp
	mov	$PAGE + 0x400, %rax
	call	*%rax
	add	$8, %rsp
	ret
	.size	time, . - time

	.balign	16
	.globl	gettimeofday
	.type	gettimeofday, @function
gettimeofday:
	sub	$8, %rsp
	mov	$PAGE, %rax
	call	*%rax
	cmp	$0xfffff001, %eax
	jae	1f
	add	$8, %rsp
	ret
1:	or	$-1, %rax
	add	$8, %rsp
	ret
	.size	gettimeofday, . - gettimeofday

	.balign	16
	.globl	sched_getcpu
	.type	sched_getcpu, @function
sched_getcpu:
	sub	$8, %rsp
	mov	%rsp, %rdi
	xor	%esi, %esi
	mov	$0x38, %edx
	add	%fs:0, %rdx
	mov	$PAGE + 0x800, %rax
	call	*%rax
	cmp	$0xfffffffffffff001, %rax
	jae	1f
	mov	(%rsp), %eax
	add	$8, %rsp
	ret
1:	or	$-1, %rax
	add	$8, %rsp
	ret
	.size	sched_getcpu, . - sched_getcpu

	.section .note.GNU-stack, "", @progbits
