#include "textflag.h"

// func indexPair(p *byte, n int, pair uint16) int
// SI begin, DI here, DX the last 64 bytes, R8 end; Y0 the first byte, Y3 the second; Y8 and Y9 the hits.
TEXT ·indexPair(SB), NOSPLIT, $0-32
	MOVQ p+0(FP), SI
	MOVQ n+8(FP), CX
	MOVWLZX pair+16(FP), AX
	VMOVD AX, X0
	SHRL $8, AX
	VMOVD AX, X3
	VPBROADCASTB X0, Y0
	VPBROADCASTB X3, Y3
	MOVQ SI, DI
	LEAQ (SI)(CX*1), R8
	LEAQ -64(R8), DX
	PCALIGN $32

next:
	PREFETCHT0 2048(DI)
	VPCMPEQB (DI), Y0, Y8
	VPCMPEQB 1(DI), Y3, Y10
	VPAND    Y8, Y10, Y8
	VPCMPEQB 32(DI), Y0, Y9
	VPCMPEQB 33(DI), Y3, Y11
	VPAND    Y9, Y11, Y9
	VPOR     Y8, Y9, Y10
	VPTEST   Y10, Y10
	JNZ      found
	ADDQ     $64, DI
	CMPQ     DI, DX
	JLS      next
	CMPQ     DI, R8
	JCC      none
	MOVQ     DX, DI // the rest, and some bytes before it again
	JMP      next

found:
	VPMOVMSKB Y8, AX
	VPMOVMSKB Y9, BX
	SHLQ $32, BX
	ORQ  BX, AX
	BSFQ AX, AX
	SUBQ SI, DI
	ADDQ DI, AX
	MOVQ AX, ret+24(FP)
	VZEROUPPER
	RET

none:
	MOVQ $-1, ret+24(FP)
	VZEROUPPER
	RET
