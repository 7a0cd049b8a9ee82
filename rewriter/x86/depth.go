// The values of the stack pointer and a frame pointer, and the words of the stack at them.

package x86

import (
	"golang.org/x/arch/x86/x86asm"
)

// Depth is the values of rsp and rbp, in bytes from rsp at the function's start.
type Depth struct {
	SP, BP       int64
	HasSP, HasBP bool
}

// Over updates d for an instruction.
func (d *Depth) Over(i *Instr) {
	dst, width, _ := i.ArgGPR(0)
	n, isImm := i.Args[1].(x86asm.Imm)
	wide := width == 64
	src, _, _ := i.ArgGPR(1)
	m, _ := i.Mem()
	switch {
	case !i.Known:
		d.HasSP, d.HasBP = false, false
	case i.Op == x86asm.PUSH || i.Op == x86asm.PUSHFQ:
		d.SP -= 8
		d.HasSP = d.HasSP && i.DataSize != 16
	case i.Op == x86asm.POP || i.Op == x86asm.POPFQ:
		d.SP += 8
		d.HasSP = d.HasSP && i.DataSize != 16 && dst != Rsp
		d.HasBP = d.HasBP && dst != Rbp
	case i.Op == x86asm.LEAVE:
		d.SP, d.HasSP, d.HasBP = d.BP+8, d.HasBP, false
	case wide && dst == Rsp && i.Op == x86asm.SUB && isImm:
		d.SP -= int64(n)
	case wide && dst == Rsp && i.Op == x86asm.ADD && isImm:
		d.SP += int64(n)
	case wide && (dst == Rsp || dst == Rbp) && (i.Op == x86asm.MOV && (src == Rsp || src == Rbp) ||
		i.Op == x86asm.LEA && m.Index == 0 && (m.Base == x86asm.RSP || m.Base == x86asm.RBP)):
		v, ok := d.SP, d.HasSP
		if m.Base == x86asm.RBP || src == Rbp {
			v, ok = d.BP, d.HasBP
		}
		if i.Op == x86asm.LEA {
			v += m.Disp
		}
		if dst == Rsp {
			d.SP, d.HasSP = v, ok
		} else {
			d.BP, d.HasBP = v, ok
		}
	default:
		changed := i.Writes | i.Partial
		d.HasSP = d.HasSP && !changed.Has(Rsp)
		d.HasBP = d.HasBP && !changed.Has(Rbp)
	}
}

// Place is the place in the frame of a memory operand.
type Place struct {
	Off   int64 // from rsp at the function's start, in bytes
	Stack bool  // it is in the frame
	Exact bool  // Off is known
}

// Place returns the place of the memory operand of i.
func (d Depth) Place(i *Instr) Place {
	m, ok := i.Mem()
	if !ok {
		return Place{}
	}
	switch {
	case m.Base == x86asm.RSP:
		return Place{d.SP + m.Disp, true, d.HasSP && m.Index == 0}
	case m.Base == x86asm.RBP && d.HasBP:
		return Place{d.BP + m.Disp, true, m.Index == 0}
	case m.Index == x86asm.RBP && d.HasBP:
		return Place{0, true, false}
	}
	return Place{}
}

// ReturnsElsewhere reports whether i overwrites the return address, or is a return to another one: that of the
// caller's caller.
func (d Depth) ReturnsElsewhere(i *Instr) bool {
	if !d.HasSP {
		return false
	}
	_, toMem := i.Args[0].(x86asm.Mem)
	p := d.Place(i)
	replaced := toMem && p.Exact && p.Off > -WordSize && p.Off < WordSize && i.Op != x86asm.CMP && i.Op != x86asm.TEST && i.Op != x86asm.NOP && i.Op != x86asm.PUSH && i.Flow == FlowNext
	return replaced || i.Flow == FlowRet && d.SP > 0
}

// WordSize is the size of a word of the stack, in bytes.
const WordSize = 8

// Address returns the address in the frame that i loads into a register or passes on.
func (d Depth) Address(i *Instr) (off int64, taken bool) {
	dst, _, _ := i.ArgGPR(0)
	switch p := d.Place(i); {
	case i.Op == x86asm.LEA && p.Stack:
		return p.Off, dst != Rsp && dst != Rbp
	case i.Op == x86asm.LEAVE || i.Op == x86asm.CMP || i.Op == x86asm.TEST || i.Op == x86asm.NOP:
		return 0, false
	}
	frameRegs := RegsOf(Rsp)
	if d.HasBP {
		frameRegs |= RegsOf(Rbp)
	}
	if i.Operands&frameRegs == 0 || (dst == Rsp || dst == Rbp) && i.Op != x86asm.PUSH && i.Op != x86asm.XCHG {
		return 0, false
	}
	return min(d.SP, d.BP), true
}
