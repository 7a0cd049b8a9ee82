// The decoder of single instructions.

package x86

import (
	"bytes"
	"slices"

	"golang.org/x/arch/x86/x86asm"
)

// Regs is a set of general registers, one bit each in encoding order (rax = bit 0).
type Regs uint16

// The general registers in encoding order (Intel SDM vol. 2, table 2-2).
const (
	Rax = iota
	Rcx
	Rdx
	Rbx
	Rsp
	Rbp
	Rsi
	Rdi
	R8
	R9
	R10
	R11
	R12
)

// MaxLen is the length of the longest instruction in bytes (SDM vol. 2, 2.3.11).
const MaxLen = 15

// RegsOf returns the set of these registers.
func RegsOf(list ...int) Regs {
	var s Regs
	for _, r := range list {
		s |= 1 << r
	}
	return s
}

// Has reports whether a register is in the set.
func (s Regs) Has(r int) bool { return s>>r&1 != 0 }

// The roles of registers in the System V x86-64 calling convention (psABI 3.2.3).
var (
	ArgRegs     = RegsOf(Rdi, Rsi, Rdx, Rcx, R8, R9)
	CallerSaved = RegsOf(Rax, Rcx, Rdx, Rsi, Rdi, R8, R9, R10, R11)
)

// FlowKind is the kind of control flow after an instruction.
type FlowKind uint8

const (
	FlowNext     FlowKind = iota // the next instruction
	FlowJump                     // target
	FlowCond                     // target or the next one
	FlowCall                     // target, then the next one
	FlowIndirect                 // a jump through a register or memory
	FlowCallInd                  // a call through a register or memory, then the next one
	FlowRet                      // the caller
	FlowStop                     // nowhere: ud2, hlt
)

// Instr is one decoded instruction.
type Instr struct {
	x86asm.Inst
	Addr   uint64
	Flow   FlowKind
	Target uint64 // for FlowJump, FlowCond, FlowCall
}

// Next returns the address behind the instruction.
func (i *Instr) Next() uint64 { return i.Addr + uint64(i.Len) }

// Decode decodes the instruction at the start of b, which is at addr. ok is false if the decoder does not support
// the bytes.
func Decode(b []byte, addr uint64) (i Instr, ok bool) {
	defer func() {
		if recover() != nil { // the third-party decoder should not panic
			i, ok = Instr{}, false
		}
	}()
	b = b[:min(len(b), MaxLen)]
	if op, n := bare(b); n > 0 {
		return Instr{Inst: x86asm.Inst{Op: op, Len: n}, Addr: addr}, true
	}
	b, more := withoutADX(b)
	inst, err := x86asm.Decode(b, 64)
	if err != nil || inst.Op == 0 {
		return Instr{}, false
	}
	inst.Len += more
	for n, arg := range inst.Args { // x86asm v0.32 does not extend the sign of a displacement of 4 bytes
		if m, _ := arg.(x86asm.Mem); m.Base != 0 || m.Index != 0 {
			m.Disp = int64(int32(m.Disp))
			inst.Args[n] = m
		}
	}
	i = Instr{Inst: inst, Addr: addr}
	i.classify()
	return i, true
}

// bare decodes instructions without operands that x86asm v0.32 decodes wrongly, and returns their length in bytes:
// endbr64 (f3 0f 1e fa) as a lone prefix, vzeroupper and vzeroall (VEX.0F 77) as longer instructions.
func bare(b []byte) (op x86asm.Op, n int) {
	switch {
	case isEndbr64(b):
		return x86asm.NOP, 4
	case len(b) >= 3 && b[0] == 0xc5 && b[1]&3 == 0 && b[2] == 0x77:
		n = 3
	case len(b) >= 4 && b[0] == 0xc4 && b[1]&0x1f == 1 && b[2]&3 == 0 && b[3] == 0x77:
		n = 4
	default:
		return op, n
	}
	if b[n-2]&7 == 4 {
		return x86asm.VZEROALL, n
	}
	return x86asm.VZEROUPPER, n
}

func isEndbr64(b []byte) bool { return bytes.HasPrefix(b, []byte{0xf3, 0x0f, 0x1e, 0xfa}) }

// withoutADX returns adcx and adox, which x86asm v0.32 does not support, as the adc with the same operands, and
// how many bytes shorter that is: 66 or f3, perhaps REX, 0f 38 f6 for REX, 13 (SDM vol. 2, ADCX).
func withoutADX(b []byte) (as []byte, shorter int) {
	rex := 1
	if len(b) > 1 && b[1]&0xf0 == 0x40 {
		rex = 2
	}
	if len(b) == 0 || b[0] != 0x66 && b[0] != 0xf3 || !bytes.HasPrefix(b[rex:], []byte{0x0f, 0x38, 0xf6}) {
		return b, 0
	}
	return slices.Concat(b[1:rex], []byte{0x13}, b[rex+3:]), 3
}

// classify sets Flow and Target.
func (i *Instr) classify() {
	rel, isRel := i.Args[0].(x86asm.Rel)
	if isRel {
		i.Target = i.Next() + uint64(int64(rel))
	}
	switch {
	case i.Op == x86asm.JMP && isRel:
		i.Flow = FlowJump
	case i.Op == x86asm.JMP || i.Op == x86asm.LJMP:
		i.Flow = FlowIndirect
	case i.Op == x86asm.CALL && isRel:
		i.Flow = FlowCall
	case i.Op == x86asm.CALL || i.Op == x86asm.LCALL:
		i.Flow = FlowCallInd
	case i.Op == x86asm.RET || i.Op == x86asm.LRET || i.Op == x86asm.IRET || i.Op == x86asm.IRETD || i.Op == x86asm.IRETQ:
		i.Flow = FlowRet
	case i.Op == x86asm.UD2 || i.Op == x86asm.UD1 || i.Op == x86asm.HLT:
		i.Flow = FlowStop
	case isRel:
		i.Flow = FlowCond
	}
}

// gpr returns the number and width in bits of a general register; ok is false for others.
func gpr(r x86asm.Reg) (n, width int, ok bool) {
	switch { // x86asm has them in this order, the first ones of all
	case r == 0 || r > x86asm.R15:
		return n, width, false
	case r <= x86asm.BL:
		return int(r - x86asm.AL), 8, true
	case r <= x86asm.BH:
		return int(r - x86asm.AH), 8, true
	case r <= x86asm.R15B:
		return int(r-x86asm.SPB) + Rsp, 8, true
	case r <= x86asm.R15W:
		return int(r - x86asm.AX), 16, true
	case r <= x86asm.R15L:
		return int(r - x86asm.EAX), 32, true
	}
	return int(r - x86asm.RAX), 64, true
}

// ArgGPR returns the general register that is argument n of i, and its width in bits.
func (i *Instr) ArgGPR(n int) (r, width int, ok bool) {
	if reg, is := i.Args[n].(x86asm.Reg); is {
		return gpr(reg)
	}
	return r, width, false
}

// Mem returns the memory operand of i.
func (i *Instr) Mem() (m x86asm.Mem, ok bool) {
	for _, a := range i.Args {
		if m, ok = a.(x86asm.Mem); ok {
			return m, true
		}
	}
	return m, false
}

// MemVaddr returns the address of a memory operand without registers except rip.
func (i *Instr) MemVaddr() (vaddr uint64, ok bool) {
	m, is := i.Mem()
	if !is || m.Index != 0 || m.Segment == x86asm.FS || m.Segment == x86asm.GS {
		return 0, false
	}
	switch m.Base {
	case x86asm.RIP:
		return i.Next() + uint64(m.Disp), true
	case 0:
		return uint64(m.Disp), true
	}
	return 0, false
}

// AddressRegs returns the registers in the address of a memory operand; none of a nop, which does not use it.
func (i *Instr) AddressRegs() Regs {
	var s Regs
	if i.Op == x86asm.NOP {
		return s
	}
	for _, a := range i.Args {
		m, _ := a.(x86asm.Mem)
		if r, _, ok := gpr(m.Base); ok {
			s |= 1 << r
		}
		if r, _, ok := gpr(m.Index); ok && m.Scale != 0 {
			s |= 1 << r
		}
	}
	return s
}

// HasVector reports whether an operand is an x87, MMX, SSE, AVX or mask register.
func (i *Instr) HasVector() bool {
	for _, a := range i.Args {
		if r, _ := a.(x86asm.Reg); r >= x86asm.F0 && r <= x86asm.K7 {
			return true
		}
	}
	return false
}

// CallsThrough returns the register that a call or jmp uses as target; ok is false for other instructions.
func (i *Instr) CallsThrough() (r int, ok bool) {
	r, width, _ := i.ArgGPR(0)
	return r, width == 64 && (i.Flow == FlowCallInd || i.Flow == FlowIndirect)
}

// Calls reports whether i is a call.
func (i *Instr) Calls() bool { return i.Flow == FlowCall || i.Flow == FlowCallInd }
