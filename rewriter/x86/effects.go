// The effects of instructions on the general registers. Source: Intel SDM vol. 2, by mnemonic. An instruction that
// is neither in the table nor plain vector or x87 code is unknown.

package x86

import (
	"strings"
	"sync"

	"golang.org/x/arch/x86/x86asm"
)

// operand is the effect of an instruction on its first operand; it reads the others.
type operand uint8

const (
	opRead   operand = iota // only read
	opWrite                 // only written
	opUpdate                // read and written
	opSwap                  // the first two are both read and written
	opTwo                   // the first two are only written
	opNone                  // operands are not accessed
)

// effect is the effect of an instruction besides reading the registers of an address.
type effect struct {
	first         operand
	reads, writes Regs // implicit
	partial       Regs // implicit, and perhaps not written
}

var effects = sync.OnceValue(buildEffects) // containers start without it

func buildEffects() map[x86asm.Op]effect {
	t := make(map[x86asm.Op]effect)
	add := func(e effect, ops ...x86asm.Op) {
		for _, op := range ops {
			t[op] = e
		}
	}
	addRange := func(e effect, first, last x86asm.Op) { // x86asm has them in the order of their names
		for op := first; op <= last; op++ {
			t[op] = e
		}
	}
	add(effect{first: opWrite}, x86asm.MOV, x86asm.MOVZX, x86asm.MOVSX, x86asm.MOVSXD, x86asm.LEA, x86asm.POP,
		x86asm.CVTTSS2SI, x86asm.CVTTSD2SI, x86asm.CVTSS2SI, x86asm.CVTSD2SI, x86asm.LZCNT, x86asm.TZCNT, x86asm.POPCNT, x86asm.MOVNTI, x86asm.MOVBE, x86asm.RDRAND, x86asm.FNSTSW, x86asm.FNSTCW,
		x86asm.STMXCSR, x86asm.VSTMXCSR, x86asm.RDFSBASE, x86asm.RDGSBASE,
		x86asm.ANDN, x86asm.BEXTR, x86asm.BLSI, x86asm.BLSMSK, x86asm.BLSR, x86asm.BZHI, x86asm.PDEP, x86asm.PEXT, x86asm.RORX,
		x86asm.SARX, x86asm.SHLX, x86asm.SHRX, x86asm.VCVTSD2SI, x86asm.VCVTSD2USI, x86asm.VCVTSS2SI, x86asm.VCVTSS2USI,
		x86asm.VCVTTSD2SI, x86asm.VCVTTSD2USI, x86asm.VCVTTSS2SI, x86asm.VCVTTSS2USI)
	addRange(effect{first: opWrite}, x86asm.SETA, x86asm.SETS)
	add(effect{first: opUpdate}, x86asm.ADD, x86asm.SUB, x86asm.ADC, x86asm.SBB, x86asm.AND, x86asm.OR, x86asm.XOR, x86asm.INC,
		x86asm.DEC, x86asm.NEG, x86asm.NOT, x86asm.SHL, x86asm.SHR, x86asm.SAR, x86asm.ROL, x86asm.ROR, x86asm.RCL, x86asm.RCR,
		x86asm.SHLD, x86asm.SHRD, x86asm.BSWAP, x86asm.BTS, x86asm.BTR, x86asm.BTC, x86asm.BSF, x86asm.BSR, x86asm.CRC32)
	addRange(effect{first: opUpdate}, firstMove, lastMove)
	addRange(effect{}, x86asm.JA, x86asm.JS) // including those that follow below
	add(effect{first: opRead}, x86asm.CMP, x86asm.TEST, x86asm.BT, x86asm.PUSH, x86asm.JMP, x86asm.CALL, x86asm.LJMP, x86asm.LCALL,
		x86asm.RET, x86asm.LRET, x86asm.LDMXCSR, x86asm.VLDMXCSR, x86asm.WRFSBASE, x86asm.WRGSBASE, x86asm.FLDCW, x86asm.CLFLUSH)
	add(effect{first: opNone}, x86asm.NOP, x86asm.PAUSE, x86asm.MFENCE, x86asm.LFENCE, x86asm.SFENCE, x86asm.CLD, x86asm.STD,
		x86asm.CLC, x86asm.STC, x86asm.CMC, x86asm.UD1, x86asm.UD2, x86asm.HLT, x86asm.EMMS, x86asm.FWAIT, x86asm.PUSHFQ, x86asm.POPFQ,
		x86asm.PREFETCHNTA, x86asm.PREFETCHT0, x86asm.PREFETCHT1, x86asm.PREFETCHT2, x86asm.PREFETCHW, x86asm.XEND, x86asm.XTEST)
	add(effect{partial: RegsOf(Rax)}, x86asm.XBEGIN, x86asm.XABORT) // the status of an abort
	add(effect{first: opSwap}, x86asm.XCHG, x86asm.XADD)
	add(effect{first: opTwo, reads: RegsOf(Rdx)}, x86asm.MULX)
	add(effect{first: opUpdate, reads: RegsOf(Rax), partial: RegsOf(Rax)}, x86asm.CMPXCHG)
	add(effect{first: opUpdate, reads: RegsOf(Rax, Rbx, Rcx, Rdx), partial: RegsOf(Rax, Rdx)}, x86asm.CMPXCHG8B, x86asm.CMPXCHG16B)
	add(effect{reads: RegsOf(Rbp), writes: RegsOf(Rbp, Rsp)}, x86asm.LEAVE)
	add(effect{reads: RegsOf(Rbp, Rsp), writes: RegsOf(Rbp, Rsp)}, x86asm.ENTER)
	add(effect{reads: RegsOf(Rax), writes: RegsOf(Rdx)}, x86asm.CDQ, x86asm.CQO)
	add(effect{reads: RegsOf(Rax), partial: RegsOf(Rdx)}, x86asm.CWD)
	add(effect{reads: RegsOf(Rax), writes: RegsOf(Rax)}, x86asm.CDQE, x86asm.CWDE)
	add(effect{reads: RegsOf(Rax), partial: RegsOf(Rax)}, x86asm.CBW, x86asm.LAHF)
	add(effect{reads: RegsOf(Rax)}, x86asm.SAHF)
	add(effect{writes: RegsOf(Rax, Rdx)}, x86asm.RDTSC)
	add(effect{writes: RegsOf(Rax, Rdx, Rcx)}, x86asm.RDTSCP)
	add(effect{reads: RegsOf(Rcx), writes: RegsOf(Rax, Rdx)}, x86asm.XGETBV)
	add(effect{reads: RegsOf(Rax, Rcx), writes: RegsOf(Rax, Rbx, Rcx, Rdx)}, x86asm.CPUID)
	// The kernel preserves every register except rax, rcx and r11 (psABI A.2.1).
	add(effect{reads: syscallArgs, writes: RegsOf(Rax, Rcx, R11)}, x86asm.SYSCALL)
	add(effect{reads: RegsOf(Rcx), partial: RegsOf(Rcx)}, x86asm.LOOP, x86asm.LOOPE, x86asm.LOOPNE)
	add(effect{writes: RegsOf(Rcx)}, x86asm.PCMPISTRI, x86asm.VPCMPISTRI)
	add(effect{reads: RegsOf(Rax, Rdx), writes: RegsOf(Rcx)}, x86asm.PCMPESTRI, x86asm.VPCMPESTRI)
	add(effect{reads: RegsOf(Rax, Rdx)}, x86asm.PCMPESTRM, x86asm.VPCMPESTRM)
	add(effect{reads: RegsOf(Rdi)}, x86asm.MASKMOVQ, x86asm.MASKMOVDQU, x86asm.VMASKMOVDQU)
	add(effect{reads: RegsOf(Rcx)}, x86asm.JCXZ, x86asm.JECXZ, x86asm.JRCXZ)
	str := RegsOf(Rax, Rcx, Rsi, Rdi)
	add(effect{reads: str, partial: str}, x86asm.MOVSB, x86asm.MOVSW, x86asm.MOVSD, x86asm.MOVSQ, x86asm.STOSB,
		x86asm.STOSW, x86asm.STOSD, x86asm.STOSQ, x86asm.LODSB, x86asm.LODSW, x86asm.LODSD, x86asm.LODSQ, x86asm.SCASB, x86asm.SCASW,
		x86asm.SCASD, x86asm.SCASQ, x86asm.CMPSB, x86asm.CMPSW, x86asm.CMPSD, x86asm.CMPSQ)
	return t
}

// The conditional moves.
const firstMove, lastMove = x86asm.CMOVA, x86asm.CMOVS

// IsConditionalMove reports whether i is a conditional move.
func (i *Instr) IsConditionalMove() bool { return i.Op >= firstMove && i.Op <= lastMove }

// effects sets Reads, Operands, Writes, Partial and Known.
func (i *Instr) effects() {
	i.operandEffects()
	i.Operands = i.Reads
	switch {
	case i.Op == x86asm.LEA:
		i.Operands |= i.AddressRegs()
		i.Reads |= i.Operands
	case i.Op != x86asm.NOP:
		i.Reads |= i.AddressRegs()
	}
}

// operandEffects is effects without the registers of addresses.
func (i *Instr) operandEffects() {
	switch i.Op {
	case x86asm.IMUL, x86asm.MUL, x86asm.DIV, x86asm.IDIV:
		i.multiply()
		return
	}
	table := effects()
	e, ok := table[i.Op]
	if i.IsInt3() {
		e, ok = table[x86asm.NOP], true
	}
	if i.Op == x86asm.MOVSD && i.HasVector() {
		ok = false // the SSE instruction of the same name
	}
	if !ok {
		i.vectorEffects()
		return
	}
	i.Known = true
	i.Reads, i.Writes, i.Partial = e.reads, e.writes, e.partial
	if e.first == opNone {
		return
	}
	if i.clearsItself() {
		i.touch(0, opWrite)
		return
	}
	i.touch(0, e.first)
	for n := 1; n < len(i.Args); n++ {
		switch {
		case n == 1 && e.first == opSwap:
			i.touch(1, opUpdate)
		case n == 1 && e.first == opTwo:
			i.touch(1, opWrite)
		default:
			i.touch(n, opRead)
		}
	}
}

// touch records the effect on argument n if it is a general register.
func (i *Instr) touch(n int, how operand) {
	r, width, ok := i.ArgGPR(n)
	if !ok {
		return
	}
	if how != opWrite && how != opTwo {
		i.Reads |= 1 << r
	}
	switch {
	case how == opRead:
	case width >= 32: // a 32-bit write clears the upper half (SDM vol. 1, 3.4.1.1)
		i.Writes |= 1 << r
	default:
		i.Partial |= 1 << r
	}
}

// clearsItself reports whether i is xor %r,%r or sub %r,%r, which read nothing in effect.
func (i *Instr) clearsItself() bool {
	a, wa, _ := i.ArgGPR(0)
	b, wb, _ := i.ArgGPR(1)
	return (i.Op == x86asm.XOR || i.Op == x86asm.SUB) && a == b && wa >= 32 && wa == wb
}

// multiply handles mul, imul, div and idiv, whose implicit registers depend on their form.
func (i *Instr) multiply() {
	i.Known = true
	if i.Args[1] != nil {
		how := opUpdate
		if i.Args[2] != nil {
			how = opWrite
		}
		i.touch(0, how)
		i.touch(1, opRead)
		return
	}
	i.touch(0, opRead)
	_, width, isReg := i.ArgGPR(0)
	if !isReg {
		width = i.MemBytes * 8
	}
	i.Reads |= RegsOf(Rax)
	if i.Op == x86asm.DIV || i.Op == x86asm.IDIV {
		i.Reads |= RegsOf(Rdx)
	}
	if width >= 32 {
		i.Writes |= RegsOf(Rax, Rdx)
	} else {
		i.Partial |= RegsOf(Rax, Rdx)
	}
}

// vectorEffects handles x87, MMX, SSE and AVX, which access general registers only as explicit operands; the few
// with implicit ones are in the table.
func (i *Instr) vectorEffects() {
	name := i.Op.String()
	x87 := strings.HasPrefix(name, "F") && i.Op != x86asm.FXSAVE64 && i.Op != x86asm.FXRSTOR64
	if !x87 && !i.HasVector() {
		return
	}
	i.Known = true
	i.touch(0, opWrite)
	for n := 1; n < len(i.Args); n++ {
		i.touch(n, opRead)
	}
}
