/*
 * The stubs that healed call sites reach: near.c and vfix-trace (trace/map.c) copy them to pages
 * of their own, with the address of the vDSO's function in the hole.
 */
	.section .rodata, "a", @progbits

	/*
	 * in: the arguments, in rdi and rsi; out: rax; clobbers: nothing, not even flags, as the
	 * kernel's emulation of the page; stack: 88 bytes, with the return address, and what the
	 * function uses, below the caller's red zone: a call in inline assembly may be in a function
	 * with data there, which no file shows at run time
	 */
	.globl	vfix_stub_keep, vfix_stub_keep_hole, vfix_stub_keep_end
	.hidden	vfix_stub_keep, vfix_stub_keep_hole, vfix_stub_keep_end
vfix_stub_keep:
	lea	-128(%rsp), %rsp	# psABI 3.2.2, as the kernel does for a signal handler
	push	%rcx			# the registers that C code may change
	push	%r11
	push	%rdi
	push	%rsi
	push	%rdx
	push	%r8
	push	%r9
	push	%r10
	lahf				# SF, ZF, AF, PF, CF; the function keeps the others but OF
	seto	%al
	push	%rax
	.byte	0x48, 0xb8		# movabs to rax
vfix_stub_keep_hole:
	.quad	0
	call	*%rax			# any alignment will do: no vector registers
	pop	%rcx
	xchg	%rax, %rcx
	add	$0x7f, %al		# OF again
	sahf
	xchg	%rax, %rcx
	pop	%r10
	pop	%r9
	pop	%r8
	pop	%rdx
	pop	%rsi
	pop	%rdi
	pop	%r11
	pop	%rcx
	lea	128(%rsp), %rsp
	ret
vfix_stub_keep_end:
	.if	vfix_stub_keep_end - vfix_stub_keep > 64
	.error	"longer than its slot (STUB_SIZE, SLOT)"
	.endif

	/* For callers that follow the C convention. in, out: the same; stack: none of its own */
	.globl	vfix_stub_plain, vfix_stub_plain_hole, vfix_stub_plain_end
	.hidden	vfix_stub_plain, vfix_stub_plain_hole, vfix_stub_plain_end
vfix_stub_plain:
	.byte	0x48, 0xb8		# movabs to rax
vfix_stub_plain_hole:
	.quad	0
	jmp	*%rax			# it returns to the call site
vfix_stub_plain_end:

	.section .note.GNU-stack, "", @progbits
