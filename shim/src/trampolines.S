/*
 * The code that patched call sites reach, and the hooks that run when the file is loaded.
 *
 * The rewriter copies one page of this code and one page of state after it into the file as one segment,
 * R-X:
 *
 *	+0x0000  vfix_magic, the trampolines, the hooks, the C of hook.c and vdso.c
 *	+0x1000  vfix_state: pointers, zero in the file; the hook fills and seals them
 *
 * Two trampolines per function:
 *
 *	vfix_NAME       for callers that follow the C convention
 *	vfix_keep_NAME  exact: changes rax and nothing else, as the kernel's emulation of the page
 *
 * If the state has no pointer, they make the system call instead: no lazy resolver, no race, and no system
 * call that other programs would not make.
 *
 * The exact trampolines have their own pointers. The hook fills them if the vDSO is Linux's, which is built
 * with -mno-sse: it changes no vector register and needs no alignment. gcc builds gVisor's gettimeofday
 * with xmm0 and xmm1.
 *
 * One frame description covers the trampolines and the hooks, so that debuggers, profilers and exceptions
 * get past them. The rewriter puts its instructions into a file's own descriptions.
 */
#include <sys/syscall.h>

#define STATE_GETTIMEOFDAY	vfix_state + 0
#define STATE_TIME		vfix_state + 8
#define STATE_GETCPU		vfix_state + 16
#define EXACT			24	/* from a pointer to the exact trampoline's own */

#define RED_ZONE		128	/* bytes below rsp that are the caller's (psABI 3.2.2) */
#define RFLAGS_DF		0x400	/* the direction flag, which C code expects clear (psABI 3.2.1) */

	/* The rewriter finds this at the start of a segment: the file has been patched. */
	.section .text.0, "ax", @progbits
	.globl	vfix_magic
vfix_magic:
	.ascii	"\177vfix injected 1"	/* 16 bytes; the digit is the format's version */

	/*
	 * in: the arguments of the function, in rdi and rsi; rax may have any value
	 * out: rax; clobbers: as a C function; stack: none of its own
	 */
	.macro	STORE register
	push	\register
	.cfi_adjust_cfa_offset 8
	.endm

	.macro	FETCH register
	pop	\register
	.cfi_adjust_cfa_offset -8
	.endm

	.macro	TRAMPOLINE name, state, number
	.balign	16
	.globl	vfix_\name
	.type	vfix_\name, @function
vfix_\name:
	mov	\state(%rip), %rax	# the vDSO's function
	test	%rax, %rax
	jz	vfix_syscall_\name	# not resolved, or this kernel has none
	jmp	*%rax			# it returns to the call site
	.size	vfix_\name, . - vfix_\name

	/* out: rax; clobbers: rcx, r11 (the syscall instruction); stack: none */
	.balign	16
	.type	vfix_syscall_\name, @function
vfix_syscall_\name:
	mov	$\number, %eax
	syscall
	ret
	.size	vfix_syscall_\name, . - vfix_syscall_\name

	/*
	 * out: rax; clobbers: nothing, neither the red zone nor a flag; stack: 216 bytes below the
	 * call site's, with both returns, and what the vDSO needs below them
	 */
	.balign	16
	.globl	vfix_keep_\name
	.type	vfix_keep_\name, @function
vfix_keep_\name:
	lea	-RED_ZONE(%rsp), %rsp	# changes no flag
	.cfi_adjust_cfa_offset RED_ZONE
	STORE	%rcx			# the registers that C code and syscall may change
	STORE	%r11
	lahf				# SF, ZF, AF, PF and CF; in every processor since 2006
	seto	%al
	STORE	%rax			# popfq would cost ten cycles
	pushfq
	.cfi_adjust_cfa_offset 8
	FETCH	%rcx
	test	$RFLAGS_DF >> 8, %ch
	jnz	1f			# the kernel clears it for itself
	mov	\state + EXACT(%rip), %rax
	test	%rax, %rax
	jz	1f
	STORE	%rdi
	STORE	%rsi
	STORE	%rdx
	STORE	%r8
	STORE	%r9
	STORE	%r10
	call	*%rax			# any alignment will do: no vector registers
	FETCH	%r10
	FETCH	%r9
	FETCH	%r8
	FETCH	%rdx
	FETCH	%rsi
	FETCH	%rdi
2:	FETCH	%rcx
	xchg	%rax, %rcx		# the result in rcx, the flags in rax
	add	$0x7f, %al		# overflows if OF was set
	sahf
	mov	%rcx, %rax
	FETCH	%r11
	FETCH	%rcx
	lea	RED_ZONE(%rsp), %rsp
	.cfi_adjust_cfa_offset -RED_ZONE
	ret
	.cfi_adjust_cfa_offset RED_ZONE + 24
1:	mov	$\number, %eax
	syscall				# changes rax, rcx and r11 alone
	jmp	2b
	.cfi_adjust_cfa_offset -(RED_ZONE + 24)
	.size	vfix_keep_\name, . - vfix_keep_\name
	.endm

	.section .text.1, "ax", @progbits
	.balign	16
	.globl	vfix_described
vfix_described:
	.cfi_startproc
	TRAMPOLINE gettimeofday, STATE_GETTIMEOFDAY, SYS_gettimeofday
	TRAMPOLINE time, STATE_TIME, SYS_time
	TRAMPOLINE getcpu, STATE_GETCPU, SYS_getcpu

	.macro	SAVE
	STORE	%rax
	STORE	%rcx
	STORE	%rdx
	STORE	%rsi
	STORE	%rdi
	STORE	%r8
	STORE	%r9
	STORE	%r10
	STORE	%r11
	.endm

	.macro	RESTORE
	FETCH	%r11
	FETCH	%r10
	FETCH	%r9
	FETCH	%r8
	FETCH	%rdi
	FETCH	%rsi
	FETCH	%rdx
	FETCH	%rcx
	FETCH	%rax
	.endm

	/*
	 * Placed at e_entry. in: rsp points to argc, as the kernel and ld.so leave it
	 * (psABI 3.4.1); rdx is ld.so's finaliser. Changes no register.
	 */
	.balign	16
	.globl	vfix_hook_entry
	.type	vfix_hook_entry, @function
vfix_hook_entry:
	.cfi_undefined rip		# nobody called it
	SAVE
	lea	72(%rsp), %rdi		# argc, behind the nine saved registers
	call	vfix_resolve_from_stack
	RESTORE
	.byte	0xe9			# jmp rel32 to the file's own entry
	.globl	vfix_hole_entry
vfix_hole_entry:
	.long	vfix_return - . - 4	# the rewriter's to fill
	.size	vfix_hook_entry, . - vfix_hook_entry

	/*
	 * Placed at DT_INIT, or first in the initialiser array.
	 * in: edi argc, rsi argv, rdx envp under glibc; anything under musl. Changes no register.
	 */
	.balign	16
	.globl	vfix_hook_init
	.type	vfix_hook_init, @function
vfix_hook_init:
	.cfi_offset rip, -8
	SAVE
	call	vfix_resolve_from_init
	RESTORE
	.byte	0xe9			# jmp rel32 to the file's own initialiser
	.globl	vfix_hole_init
vfix_hole_init:
	.long	vfix_return - . - 4	# the rewriter's to fill; without one, to the ret below
	.size	vfix_hook_init, . - vfix_hook_init

vfix_return:
	ret
	.cfi_endproc
	.globl	vfix_described_end
vfix_described_end:

	.section .note.GNU-stack, "", @progbits
