#include "textflag.h"

// Linux's numbers (asm/unistd_64.h, asm-generic/signal-defs.h).
#define SYS_rt_sigaction 13
#define SYS_rt_sigprocmask 14
#define SIG_BLOCK 0
#define SIG_IGN 1
#define MASK_SIZE 8
#define LAST_SIGNAL 64

// entry is where the kernel starts vfix, in the place of Go's own entry, which then goes on. It
// stores the signals that are blocked, and those that are ignored, before Go changes both.
// in: (SP) the kernel's; it stays as it is. clobbers: what no entry has.
TEXT ·entry(SB),NOSPLIT|NOFRAME,$0
	MOVQ	$SYS_rt_sigprocmask, AX
	MOVQ	$SIG_BLOCK, DI
	XORL	SI, SI			// no new mask
	LEAQ	·signals+0(SB), DX	// blocked
	MOVQ	$MASK_SIZE, R10
	SYSCALL
	MOVQ	$LAST_SIGNAL, R12
next:
	MOVQ	$SYS_rt_sigaction, AX
	MOVQ	R12, DI
	XORL	SI, SI			// no new action
	LEAQ	-64(SP), DX		// below the stack: handler, flags, restorer, mask
	MOVQ	$MASK_SIZE, R10
	SYSCALL
	TESTQ	AX, AX
	JNE	other
	CMPQ	-64(SP), $SIG_IGN
	JNE	other
	LEAQ	-1(R12), CX
	BTSQ	CX, ·signals+8(SB)	// ignored
other:
	DECQ	R12
	JNE	next
	MOVQ	$1, ·signals+16(SB)	// recorded
	JMP	_rt0_amd64_linux(SB)
