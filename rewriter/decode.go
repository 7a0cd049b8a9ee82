package rewriter

import (
	"golang.org/x/arch/x86/x86asm"
)

// Decoding of single instructions, and what each does to the general registers. What is
// not known exactly is marked so, and every reader of it then assumes the worst.

// regs is a set of general registers, one bit each in encoding order (rax = bit 0).
type regs uint16

// The general registers in encoding order (Intel SDM vol. 2, table 2-2).
const (
	rax = iota
	rcx
	rdx
	rbx
	rsp
	rbp
	rsi
	rdi
	r8
	r9
	r10
	r11
	r12
	r13
	r14
	r15
	numRegs
)

// maxInstLen is the longest instruction in bytes (SDM vol. 2, 2.3.11).
const maxInstLen = 15

func regsOf(list ...int) regs {
	var s regs
	for _, r := range list {
		s |= 1 << r
	}
	return s
}

func (s regs) has(r int) bool { return s>>r&1 != 0 }

// The roles of registers in the System V x86-64 calling convention (psABI 3.2.3) and in
// system calls (psABI A.2.1).
var (
	argRegs     = regsOf(rdi, rsi, rdx, rcx, r8, r9)
	callerSaved = regsOf(rax, rcx, rdx, rsi, rdi, r8, r9, r10, r11)
	syscallArgs = regsOf(rax, rdi, rsi, rdx, r10, r8, r9)
)

// flowKind is where control goes after an instruction.
type flowKind uint8

const (
	flowNext     flowKind = iota // the next instruction
	flowJump                     // target
	flowCond                     // target or the next one
	flowCall                     // target, then the next one
	flowIndirect                 // a jump through a register or memory
	flowCallInd                  // a call through a register or memory, then the next one
	flowRet                      // the caller
	flowStop                     // nowhere: ud2, hlt, int3
)

// instr is one decoded instruction.
type instr struct {
	x86asm.Inst
	addr uint64
	// reads, writes and partial are the general registers that are read, overwritten in
	// all 64 bits, and overwritten in part. They mean nothing unless known is set.
	reads, writes, partial regs
	// operands are those of reads that are read for more than the address of memory.
	operands regs
	known    bool
	flow     flowKind
	target   uint64 // for flowJump, flowCond, flowCall
}

func (i *instr) next() uint64 { return i.addr + uint64(i.Len) }

// decode decodes the instruction at the start of b, which lies at addr. ok is false where
// the bytes are none that the decoder knows.
func decode(b []byte, addr uint64) (i instr, ok bool) {
	defer func() {
		if recover() != nil { // the decoder promises not to; it is not ours
			i, ok = instr{}, false
		}
	}()
	if len(b) > maxInstLen {
		b = b[:maxInstLen]
	}
	if isEndbr64(b) {
		return instr{Inst: x86asm.Inst{Op: x86asm.NOP, Len: 4, Mode: 64}, addr: addr, known: true}, true
	}
	inst, err := x86asm.Decode(b, 64)
	if err != nil || inst.Op == 0 || inst.Len <= 0 || inst.Len > len(b) {
		return instr{}, false
	}
	i = instr{Inst: inst, addr: addr}
	i.classify()
	i.effects()
	return i, true
}

// isEndbr64 knows endbr64 (f3 0f 1e fa), which x86asm v0.32 takes for a lone prefix.
func isEndbr64(b []byte) bool {
	return len(b) >= 4 && b[0] == 0xf3 && b[1] == 0x0f && b[2] == 0x1e && b[3] == 0xfa
}

// classify fills in flow and target.
func (i *instr) classify() {
	rel, isRel := i.Args[0].(x86asm.Rel)
	if isRel {
		i.target = i.next() + uint64(int64(rel))
	}
	switch {
	case i.Op == x86asm.JMP && isRel:
		i.flow = flowJump
	case i.Op == x86asm.JMP || i.Op == x86asm.LJMP:
		i.flow = flowIndirect
	case i.Op == x86asm.CALL && isRel:
		i.flow = flowCall
	case i.Op == x86asm.CALL || i.Op == x86asm.LCALL:
		i.flow = flowCallInd
	case i.Op == x86asm.RET || i.Op == x86asm.LRET || i.Op == x86asm.IRET || i.Op == x86asm.IRETD || i.Op == x86asm.IRETQ:
		i.flow = flowRet
	case i.Op == x86asm.UD2 || i.Op == x86asm.UD1 || i.Op == x86asm.HLT || i.isInt3():
		i.flow = flowStop
	case isRel:
		i.flow = flowCond
	}
}

func (i *instr) isInt3() bool {
	n, ok := i.Args[0].(x86asm.Imm)
	return i.Op == x86asm.INT && ok && n == 3
}

// gpr returns the number and width in bits of a general register; ok is false for others.
func gpr(r x86asm.Reg) (n, width int, ok bool) {
	switch {
	case r >= x86asm.AL && r <= x86asm.BL:
		return int(r - x86asm.AL), 8, true
	case r >= x86asm.AH && r <= x86asm.BH:
		return int(r - x86asm.AH), 8, true
	case r >= x86asm.SPB && r <= x86asm.R15B:
		return int(r-x86asm.SPB) + rsp, 8, true
	case r >= x86asm.AX && r <= x86asm.R15W:
		return int(r - x86asm.AX), 16, true
	case r >= x86asm.EAX && r <= x86asm.R15L:
		return int(r - x86asm.EAX), 32, true
	case r >= x86asm.RAX && r <= x86asm.R15:
		return int(r - x86asm.RAX), 64, true
	}
	return 0, 0, false
}

// argGPR returns the general register that argument n of i is.
func (i *instr) argGPR(n int) (r, width int, ok bool) {
	if reg, is := i.Args[n].(x86asm.Reg); is {
		return gpr(reg)
	}
	return 0, 0, false
}

// mem returns the memory operand of i.
func (i *instr) mem() (m x86asm.Mem, ok bool) {
	for _, a := range i.Args {
		if m, ok = a.(x86asm.Mem); ok {
			return m, true
		}
	}
	return m, false
}

// memVaddr returns the address of a memory operand that has no register in it but rip.
func (i *instr) memVaddr() (vaddr uint64, ok bool) {
	m, is := i.mem()
	if !is || m.Index != 0 || m.Segment == x86asm.FS || m.Segment == x86asm.GS {
		return 0, false
	}
	switch m.Base {
	case x86asm.RIP:
		return i.next() + uint64(int64(int32(m.Disp))), true // x86asm v0.32 does not extend its sign
	case 0:
		return uint64(m.Disp), true
	}
	return 0, false
}

// addressRegs returns the registers that make up the address of a memory operand.
func (i *instr) addressRegs() regs {
	var s regs
	for _, a := range i.Args {
		m, ok := a.(x86asm.Mem)
		if !ok {
			continue
		}
		if r, _, ok := gpr(m.Base); ok {
			s |= 1 << r
		}
		if r, _, ok := gpr(m.Index); ok && m.Scale != 0 {
			s |= 1 << r
		}
	}
	return s
}

// hasVector reports whether an operand is an x87, MMX, SSE, AVX or mask register.
func (i *instr) hasVector() bool {
	for _, a := range i.Args {
		if r, ok := a.(x86asm.Reg); ok && r >= x86asm.F0 && r <= x86asm.K7 {
			return true
		}
	}
	return false
}
