#include "textflag.h"

// OR ors into out the bytes of now that are first.
#define OR(now, first, out) \
	VPCMPEQB now, first, Y13 \
	VPOR     Y13, out, out

// AND leaves of out the bytes behind which, in next, is second.
#define AND(next, second, out) \
	VPCMPEQB next, second, Y13 \
	VPAND    Y13, out, out

// FEW sets out to the bytes of now at which one of three pairs begins: the first of A, both of B; next is now, one
// byte on.
#define FEW(now, next, out) \
	VPCMPEQB now, Y0, out \
	AND(next, Y3, out)    \
	VPCMPEQB now, Y4, Y12 \
	OR(now, Y5, Y12)      \
	AND(next, Y6, Y12)    \
	VPOR     Y12, out, out

// MANY is FEW for all five.
#define MANY(now, next, out) \
	VPCMPEQB now, Y0, out \
	OR(now, Y1, out)      \
	OR(now, Y2, out)      \
	AND(next, Y3, out)    \
	VPCMPEQB now, Y4, Y12 \
	OR(now, Y5, Y12)      \
	AND(next, Y6, Y12)    \
	VPOR     Y12, out, out

// func indexPairs(p *byte, n int, pairs *looked) int
// SI begin, DI here, DX the last 64 bytes, R8 end; Y0 to Y2 the first bytes of group A, Y3 their second; Y4, Y5 and
// Y6 those of group B; Y8 and Y9 what was found.
TEXT ·indexPairs(SB), NOSPLIT, $0-32
	MOVQ p+0(FP), SI
	MOVQ n+8(FP), CX
	MOVQ pairs+16(FP), AX
	VPBROADCASTB (AX), Y0
	VPBROADCASTB 2(AX), Y1
	VPBROADCASTB 4(AX), Y2
	VPBROADCASTB 1(AX), Y3
	VPBROADCASTB 6(AX), Y4
	VPBROADCASTB 8(AX), Y5
	VPBROADCASTB 7(AX), Y6
	MOVQ SI, DI
	LEAQ (SI)(CX*1), R8
	LEAQ -64(R8), DX
	MOVW (AX), BX
	CMPW BX, 2(AX)
	JNE  many
	CMPW BX, 4(AX)
	JNE  many
	CMPW BX, 6(AX)
	JNE  few
	CMPW BX, 8(AX)
	JNE  few
	PCALIGN $32

one: // the pairs are all the same
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
	JLS      one
	CMPQ     DI, R8
	JCC      none
	MOVQ     DX, DI // what is left, and some bytes before it again
	JMP      one
	PCALIGN $32

few: // one of group A
	PREFETCHT0 2048(DI)
	VMOVDQU  (DI), Y7
	VMOVDQU  1(DI), Y10
	VMOVDQU  32(DI), Y11
	VMOVDQU  33(DI), Y14
	FEW(Y7, Y10, Y8)
	FEW(Y11, Y14, Y9)
	VPOR     Y8, Y9, Y10
	VPTEST   Y10, Y10
	JNZ      found
	ADDQ     $64, DI
	CMPQ     DI, DX
	JLS      few
	CMPQ     DI, R8
	JCC      none
	MOVQ     DX, DI
	JMP      few
	PCALIGN $32

many:
	PREFETCHT0 2048(DI)
	VMOVDQU  (DI), Y7
	VMOVDQU  1(DI), Y10
	VMOVDQU  32(DI), Y11
	VMOVDQU  33(DI), Y14
	MANY(Y7, Y10, Y8)
	MANY(Y11, Y14, Y9)
	VPOR     Y8, Y9, Y10
	VPTEST   Y10, Y10
	JNZ      found
	ADDQ     $64, DI
	CMPQ     DI, DX
	JLS      many
	CMPQ     DI, R8
	JCC      none
	MOVQ     DX, DI
	JMP      many

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
