/* The content of the stand-in, the page that replaces the vsyscall page, and the stubs (fallback.h). */
#include <sys/syscall.h>

	.section .rodata

	/* Position independent; no register changes before the function itself. */
	.macro	ENTRY offset, slot
	.org	vfix_stand_in + \offset
	jmp	*vfix_stand_in + 0xc00 + 8 * \slot(%rip)
	.endm

	.balign	16
	.globl	vfix_stand_in
	.hidden	vfix_stand_in
vfix_stand_in:
	ENTRY	0, 0		# gettimeofday
	ENTRY	0x400, 1	# time
	ENTRY	0x800, 2	# getcpu
	.org	vfix_stand_in + 0xc00
	.quad	0, 0, 0		# the slots
	.ascii	"vfix stand-in 1"
	.byte	0

	/* One system call each, as the vsyscall page was documented: it changes rax, rcx and r11. */
	.macro	STUB number
	.balign	16, 0xcc
	mov	$\number, %eax
	syscall
	ret
	.endm

	.text
	.balign	16
	.globl	vfix_stubs
	.hidden	vfix_stubs
vfix_stubs:
	STUB	SYS_gettimeofday
	STUB	SYS_time
	STUB	SYS_getcpu
	.balign	16, 0xcc

	.section .note.GNU-stack, "", @progbits
