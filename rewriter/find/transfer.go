// The effect on a followed value of one instruction that continues at the next.

package find

import (
	"golang.org/x/arch/x86/x86asm"

	"vfix.dev/vfix/rewriter/x86"
)

// transfer moves the state v over i and records how i uses the value.
func (f *flow) transfer(i *x86.Instr, v *value) {
	if f.fromTable(i, v) {
		return
	}
	tracked := v.held(^other)
	if i.Op != x86asm.LEA && i.Op != x86asm.NOP {
		f.operands(i, v)
	}
	if f.onFrame(i, v) {
		return
	}
	dst, width, _ := i.ArgGPR(0)
	src, srcWidth, fromReg := i.ArgGPR(1)
	if f.widen(i, v) {
		return
	}
	whole := width == 64 && srcWidth == 64
	switch {
	case i.Op == x86asm.CMP || i.Op == x86asm.TEST:
		if i.Operands&tracked != 0 {
			f.note(i.Addr, compared)
		}
		return
	case i.Op == x86asm.MOV && whole:
		v.reg[dst] = v.reg[src]
		return
	case i.Op == x86asm.XCHG && whole:
		v.reg[dst], v.reg[src] = v.reg[src], v.reg[dst]
		return
	case i.IsConditionalMove() && width == 64:
		l := other // the label of memory
		if fromReg {
			l = v.reg[src]
		}
		v.reg[dst] |= l
		if v.reg[dst]&exact != 0 {
			v.reg[dst] = v.reg[dst]&^exact | chosen
		}
		return
	case i.Op == x86asm.MOV && fromReg && tracked.Has(src):
		f.store(i, v, src, srcWidth)
		f.kill(v, i.Writes|i.Partial)
		return
	case f.mangles(i, v, dst):
		return
	}
	f.other(i, v, (i.Operands|i.Partial)&tracked)
	f.compute(i, v)
}

// other records all uses without their own rule; a partly overwritten register counts as used.
func (f *flow) other(i *x86.Instr, v *value, read x86.Regs) {
	if v.held(plain|xored)&read == 0 {
		return
	}
	switch i.Op {
	case x86asm.PUSH:
		f.note(i.Addr, pushed)
	case x86asm.SYSCALL:
		f.note(i.Addr, toKernel)
	default:
		f.noteOp(i, usedBy)
	}
}

// store records a mov from a register that may have the value: to memory, or of a part.
func (f *flow) store(i *x86.Instr, v *value, src, width int) {
	l := v.reg[src]
	_, toMem := i.Args[0].(x86asm.Mem)
	slot, fixed := i.MemVaddr()
	switch {
	case l&address == 0:
		f.note(i.Addr, counted)
	case l&(plain|xored) == 0:
		f.note(i.Addr, hidden)
	case !toMem || width < 64:
		f.note(i.Addr, truncated)
	case fixed && l&(exact|xored) == 0:
		f.uses = append(f.uses, use{addr: i.Addr, how: kept, slot: slot})
	default:
		f.note(i.Addr, inMemory)
	}
}

// mangles reports whether i is one of the two instructions of glibc's PTR_MANGLE on register dst, and applies it.
func (f *flow) mangles(i *x86.Instr, v *value, dst int) bool {
	if _, width, _ := i.ArgGPR(0); width != 64 || v.reg[dst]&^other == 0 {
		return false
	}
	if m, ok := i.Mem(); ok {
		guard := m.Segment == x86asm.FS && m.Base == 0 && m.Index == 0 && m.Disp == guardOffset
		if i.Op != x86asm.XOR || !guard || v.reg[dst]&plain == 0 || v.reg[dst]&(xored|mangled) != 0 {
			return false
		}
		v.reg[dst] = v.reg[dst]&other | xored
		return true
	}
	n, ok := i.Args[1].(x86asm.Imm)
	if i.Op != x86asm.ROL || !ok || n != guardRotate || v.reg[dst]&xored == 0 || v.reg[dst]&plain != 0 {
		return false
	}
	v.reg[dst] = v.reg[dst]&other | mangled
	return true
}
