/*
 * Call sites of glibc 2.5 to 2.13, for the page at TWIN_PAGE: time is the whole stub,
 * gettimeofday has the errno test behind its call, and sched_getcpu a test and an out-parameter.
 */
	.text

	.balign	16
	.globl	site_time, site_time_end
site_time:
	sub	$8, %rsp
	mov	$TWIN_PAGE + 0x400, %rax
	call	*%rax
	add	$8, %rsp
	ret
site_time_end:

	.balign	16
	.globl	site_gettimeofday, site_gettimeofday_end
site_gettimeofday:
	sub	$8, %rsp
	mov	$TWIN_PAGE, %rax
	call	*%rax
	cmp	$0xfffff001, %eax
	jae	1f
	add	$8, %rsp
	ret
1:	or	$-1, %rax
	add	$8, %rsp
	ret
site_gettimeofday_end:

	.balign	16
	.globl	site_getcpu, site_getcpu_end
site_getcpu:
	sub	$8, %rsp
	mov	$TWIN_PAGE + 0x800, %rax
	call	*%rax
	cmp	$0xfffffffffffff001, %rax
	jae	1f
	add	$8, %rsp
	ret
1:	or	$-1, %rax
	add	$8, %rsp
	ret
site_getcpu_end:

	.section .note.GNU-stack, "", @progbits
