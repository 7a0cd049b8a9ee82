#include "textflag.h"

// PAIR ors into out the bytes of now at which the pair (one, two) begins; next is now, one byte on.
#define PAIR(now, next, one, two, out) \
	VPCMPEQB now, one, Y12   \
	VPCMPEQB next, two, Y13  \
	VPAND    Y12, Y13, Y12   \
	VPOR     Y12, out, out

// func indexPairs(p *byte, n int, pairs *[3]uint16) int
// SI begin, DI here, DX the last 64 bytes, R8 end; Y0 to Y5 the bytes of the pairs; Y8 and Y9 what was found.
TEXT ·indexPairs(SB), NOSPLIT, $0-32
	MOVQ p+0(FP), SI
	MOVQ n+8(FP), CX
	MOVQ pairs+16(FP), AX
	VPBROADCASTB (AX), Y0
	VPBROADCASTB 1(AX), Y1
	VPBROADCASTB 2(AX), Y2
	VPBROADCASTB 3(AX), Y3
	VPBROADCASTB 4(AX), Y4
	VPBROADCASTB 5(AX), Y5
	MOVQ SI, DI
	LEAQ (SI)(CX*1), R8
	LEAQ -64(R8), DX
	MOVW (AX), BX
	CMPW BX, 2(AX)
	JNE  three
	CMPW BX, 4(AX)
	JNE  three
	PCALIGN $32

one: // the pairs are all the same
	PREFETCHT0 2048(DI)
	VPCMPEQB (DI), Y0, Y8
	VPCMPEQB 1(DI), Y1, Y10
	VPAND    Y8, Y10, Y8
	VPCMPEQB 32(DI), Y0, Y9
	VPCMPEQB 33(DI), Y1, Y11
	VPAND    Y9, Y11, Y9
	VPOR     Y8, Y9, Y10
	VPTEST   Y10, Y10
	JNZ      found
	ADDQ     $64, DI
	CMPQ     DI, DX
	JLS      one
	CMPQ     DI, R8
	JCC      none
	MOVQ     DX, DI // what is left, and some bytes before it again
	JMP      one
	PCALIGN $32

three:
	PREFETCHT0 2048(DI)
	VMOVDQU  (DI), Y6
	VMOVDQU  1(DI), Y7
	VMOVDQU  32(DI), Y10
	VMOVDQU  33(DI), Y11
	VPXOR    Y8, Y8, Y8
	VPXOR    Y9, Y9, Y9
	PAIR(Y6, Y7, Y0, Y1, Y8)
	PAIR(Y6, Y7, Y2, Y3, Y8)
	PAIR(Y6, Y7, Y4, Y5, Y8)
	PAIR(Y10, Y11, Y0, Y1, Y9)
	PAIR(Y10, Y11, Y2, Y3, Y9)
	PAIR(Y10, Y11, Y4, Y5, Y9)
	VPOR     Y8, Y9, Y10
	VPTEST   Y10, Y10
	JNZ      found
	ADDQ     $64, DI
	CMPQ     DI, DX
	JLS      three
	CMPQ     DI, R8
	JCC      none
	MOVQ     DX, DI
	JMP      three

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
