/*
 * The three functions of glibc 2.5 to 2.13, in a library that vfix bench patches in each form and preloads:
 * time is the whole stub; gettimeofday has the errno test after its call, and sched_getcpu the whole code
 * of 2.13, without the part that stores errno.
 *
 * PAGE is the page that they call: the kernel's, or the twin for measurements of the fallback. PREFIX is a
 * prefix of the names, for a program that also has the libc's functions; each function ends at its name
 * with _end.
 */
#ifndef PREFIX
#define PREFIX
#endif
#define JOIN(a, b) a##b
#define EXPAND(a, b) JOIN(a, b)
#define NAME(name) EXPAND(PREFIX, name)

	.macro	FUNCTION name
	.balign	16
	.globl	\name
	.type	\name, @function
\name:
	.endm
	.macro	END name
	.size	\name, . - \name
	.hidden	\name\()_end
	.globl	\name\()_end
\name\()_end:
	.endm

	.text

	FUNCTION NAME(time)
	sub	$8, %rsp
	mov	$PAGE + 0x400, %rax
	call	*%rax
	add	$8, %rsp
	ret
	END NAME(time)

	FUNCTION NAME(gettimeofday)
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
	END NAME(gettimeofday)

	FUNCTION NAME(sched_getcpu)
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
	END NAME(sched_getcpu)

	/* A libc has an initializer, which vfix leads to its hook. */
	.hidden	NAME(started)
	FUNCTION NAME(started)
	ret
	END NAME(started)

	.section .note.GNU-stack, "", @progbits
