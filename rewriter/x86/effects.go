// The effects of instructions on the general registers. Source: Intel SDM vol. 2, by mnemonic.

package x86

import (
	"strings"

	"golang.org/x/arch/x86/x86asm"
)

// implicit are the registers that an instruction may access besides its operands if it is neither in explicit nor
// vector or x87 code: those of string, multiply, divide, system and similar instructions.
var implicit = RegsOf(Rax, Rcx, Rdx, Rbx, Rsi, Rdi)

// explicit are instructions that access no general registers except their operands and rsp.
var explicit = opSet(
	x86asm.MOV, x86asm.MOVZX, x86asm.MOVSX, x86asm.MOVSXD, x86asm.MOVBE, x86asm.MOVNTI, x86asm.LEA, x86asm.PUSH, x86asm.POP,
	x86asm.XCHG, x86asm.XADD, x86asm.BSWAP, x86asm.ADD, x86asm.SUB, x86asm.ADC, x86asm.SBB, x86asm.AND, x86asm.OR, x86asm.XOR,
	x86asm.INC, x86asm.DEC, x86asm.NEG, x86asm.NOT, x86asm.CMP, x86asm.TEST, x86asm.SHL, x86asm.SHR, x86asm.SAR, x86asm.ROL,
	x86asm.ROR, x86asm.RCL, x86asm.RCR, x86asm.SHLD, x86asm.SHRD, x86asm.BT, x86asm.BTS, x86asm.BTR, x86asm.BTC, x86asm.BSF,
	x86asm.BSR, x86asm.POPCNT, x86asm.LZCNT, x86asm.TZCNT, x86asm.NOP, x86asm.PAUSE, x86asm.MFENCE, x86asm.LFENCE,
	x86asm.SFENCE, x86asm.CLC, x86asm.STC, x86asm.CMC, x86asm.CLD, x86asm.STD, x86asm.VZEROUPPER, x86asm.VZEROALL, x86asm.CALL, x86asm.JMP, x86asm.RET, x86asm.UD2, x86asm.HLT, x86asm.STMXCSR, x86asm.LDMXCSR)

// written are instructions that only write their first operand.
var written = opSet(x86asm.MOV, x86asm.MOVZX, x86asm.MOVSX, x86asm.MOVSXD, x86asm.LEA, x86asm.POP)

func opSet(ops ...x86asm.Op) map[x86asm.Op]bool {
	set := make(map[x86asm.Op]bool, len(ops))
	for _, op := range ops {
		set[op] = true
	}
	return set
}

// Touches returns the registers that the instruction reads or writes, in part or as a part of an address; perhaps
// more, if its effects are not known exactly. It does not count rsp, which many instructions change.
func (i *Instr) Touches() Regs {
	s := i.AddressRegs()
	if i.Op == x86asm.NOP {
		return s
	}
	for n := range i.Args {
		if r, _, ok := i.ArgGPR(n); ok {
			s |= 1 << r
		}
	}
	if i.Op == x86asm.IMUL && i.Args[1] != nil {
		return s
	}
	readsRcx := i.Op == x86asm.JECXZ || i.Op == x86asm.JRCXZ
	conditional := i.Flow == FlowCond || i.IsConditionalMove() || i.Op >= x86asm.SETA && i.Op <= x86asm.SETS
	switch {
	case readsRcx || i.Op == x86asm.LOOP || i.Op == x86asm.LOOPE || i.Op == x86asm.LOOPNE:
		return s | RegsOf(Rcx)
	case i.Op == x86asm.LEAVE || i.Op == x86asm.ENTER:
		return s | RegsOf(Rbp)
	case conditional || explicit[i.Op] || i.plainVector():
		return s
	}
	return s | implicit
}

// Overwrites returns the register of which the instruction writes all 64 bits without reading it; none for others.
func (i *Instr) Overwrites() Regs {
	r, width, ok := i.ArgGPR(0)
	src, _, isReg := i.ArgGPR(1)
	clears := (i.Op == x86asm.XOR || i.Op == x86asm.SUB) && isReg && src == r
	// A 32-bit write clears the upper half (SDM vol. 1, 3.4.1.1).
	if !ok || width < 32 || !clears && (!written[i.Op] || isReg && src == r) {
		return 0
	}
	return RegsOf(r) &^ i.AddressRegs()
}

// IsConditionalMove reports whether i is a conditional move. x86asm has them in the order of their names.
func (i *Instr) IsConditionalMove() bool { return i.Op >= x86asm.CMOVA && i.Op <= x86asm.CMOVS }

// plainVector reports whether i is x87, MMX, SSE or AVX code, which accesses general registers only as operands.
func (i *Instr) plainVector() bool {
	name := i.Op.String()
	withImplicit := strings.Contains(name, "STR") || strings.Contains(name, "MASKMOV") // PCMPESTRI and its like
	x87 := strings.HasPrefix(name, "F") && !strings.HasPrefix(name, "FX")
	return (x87 || i.HasVector()) && !withImplicit
}
