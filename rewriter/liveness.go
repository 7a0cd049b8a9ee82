// Which registers still matter: after a call site, so that a trampoline need not preserve
// the others; and at the entry of a callee.

package rewriter

import (
	"golang.org/x/arch/x86/x86asm"

	"vfix.dev/vfix/rewriter/x86"
)

const (
	// calleeDepth is how many calls deep a callee is looked into.
	calleeDepth = 4
	// maxLiveness bounds the instructions looked at for one question.
	maxLiveness = 4000
)

// deadCandidates are the registers that Site.Dead may name: those that a C function may
// change, but for rax, which has the result.
var deadCandidates = x86.CallerSaved &^ x86.RegsOf(x86.Rax)

// clobbered are the registers that the syscall instruction changes beside rax.
var clobbered = x86.RegsOf(x86.Rcx, x86.R11)

// dead returns those of deadCandidates that no path from vaddr on reads before it
// overwrites them. At a return they count as dead only where abi says that all callers
// follow the C convention. rdx counts then too: of the functions that reach the page none
// returns 128 bits. Whatever is not known counts as read.
func (c *code) dead(vaddr uint64, abi bool) uint16 {
	read, unsure := c.liveness(vaddr, abi)
	return uint16(deadCandidates &^ (read | unsure))
}

// liveness returns which of deadCandidates some path from vaddr on is seen to read before it
// overwrites them, and of which nothing is known.
func (c *code) liveness(vaddr uint64, abi bool) (live, unsure x86.Regs) {
	pending := map[uint64]x86.Regs{}
	work := []uint64{}
	push := func(at uint64, s x86.Regs) {
		if s &^= live | unsure; s&^pending[at] != 0 {
			pending[at] |= s
			work = append(work, at)
		}
	}
	push(vaddr, deadCandidates)
	for n := 0; len(work) > 0 && live|unsure != deadCandidates; n++ {
		at := work[len(work)-1]
		work = work[:len(work)-1]
		s := pending[at] &^ (live | unsure)
		i, ok := c.at(at)
		if !ok || !i.Known || n >= maxLiveness {
			unsure |= s
			continue
		}
		live |= i.Reads & s
		s &^= i.Reads | i.Writes
		switch i.Flow {
		case x86.FlowNext:
			push(i.Next(), s)
		case x86.FlowCond:
			push(i.Target, s)
			push(i.Next(), s)
		case x86.FlowJump:
			push(i.Target, s)
		case x86.FlowCall:
			read, gone := c.calleeSet(i.Target, s)
			unsure |= read
			push(i.Next(), s&^(read|gone))
		case x86.FlowCallInd:
			unsure |= s & x86.ArgRegs
			push(i.Next(), s&^x86.ArgRegs)
		case x86.FlowRet:
			if !abi {
				unsure |= s
			}
		case x86.FlowIndirect:
			unsure |= s
		case x86.FlowStop:
		}
	}
	return live, unsure
}

// readers and setters of the flags, as far as they may stand behind a call. Source: SDM
// vol. 1, appendix A.
var flagReaders = func() map[x86asm.Op]bool {
	t := map[x86asm.Op]bool{x86asm.ADC: true, x86asm.SBB: true, x86asm.RCL: true, x86asm.RCR: true, x86asm.CMC: true,
		x86asm.PUSHF: true, x86asm.PUSHFQ: true, x86asm.LAHF: true, x86asm.SETA: true, x86asm.SETAE: true, x86asm.SETB: true,
		x86asm.SETBE: true, x86asm.SETE: true, x86asm.SETG: true, x86asm.SETGE: true, x86asm.SETL: true, x86asm.SETLE: true,
		x86asm.SETNE: true, x86asm.SETNO: true, x86asm.SETNP: true, x86asm.SETNS: true, x86asm.SETO: true, x86asm.SETP: true, x86asm.SETS: true}
	for _, op := range x86.ConditionalMoves {
		t[op] = true
	}
	return t
}()

// carryReaders are those that read the carry flag and jump or set by it.
var carryReaders = map[x86asm.Op]bool{x86asm.JB: true, x86asm.JAE: true, x86asm.JA: true, x86asm.JBE: true,
	x86asm.SETB: true, x86asm.SETAE: true, x86asm.SETA: true, x86asm.SETBE: true, x86asm.ADC: true, x86asm.SBB: true,
	x86asm.CMOVB: true, x86asm.CMOVAE: true, x86asm.CMOVA: true, x86asm.CMOVBE: true, x86asm.RCL: true, x86asm.RCR: true}

var flagSetters = map[x86asm.Op]bool{x86asm.ADD: true, x86asm.SUB: true, x86asm.AND: true, x86asm.OR: true, x86asm.XOR: true,
	x86asm.CMP: true, x86asm.TEST: true, x86asm.NEG: true, x86asm.IMUL: true, x86asm.MUL: true, x86asm.POPFQ: true, x86asm.XADD: true,
	x86asm.UCOMISD: true, x86asm.UCOMISS: true, x86asm.COMISD: true, x86asm.COMISS: true}

// flagsRead reports whether the code from vaddr on reads flags that it did not set: the
// kernel's emulation of the page keeps them, code of C does not. A call or a return ends them.
func (c *code) flagsRead(vaddr uint64) bool {
	const most = 64
	seen := map[uint64]bool{}
	work := []uint64{vaddr}
	for n := 0; len(work) > 0 && n < most; n++ {
		at := work[len(work)-1]
		work = work[:len(work)-1]
		i, ok := c.at(at)
		if seen[at] || !ok {
			continue
		}
		seen[at] = true
		switch {
		case flagReaders[i.Op]:
			return true
		case i.Flow == x86.FlowCond && i.Reads&x86.RegsOf(x86.Rcx) == 0:
			return true
		case i.Op == x86asm.INC || i.Op == x86asm.DEC: // all flags but the carry
			if next, ok := c.at(i.Next()); ok && carryReaders[next.Op] {
				return true
			}
		case flagSetters[i.Op]:
		case i.Flow == x86.FlowNext || i.Flow == x86.FlowCond:
			work = append(work, i.Next())
			if i.Flow == x86.FlowCond {
				work = append(work, i.Target)
			}
		case i.Flow == x86.FlowJump:
			work = append(work, i.Target)
		}
	}
	return false
}

// calleeSet asks callee about each register of s.
func (c *code) calleeSet(target uint64, s x86.Regs) (read, gone x86.Regs) {
	for r := range x86.NumRegs {
		if !s.Has(r) {
			continue
		}
		reads, survives := c.callee(target, r, calleeDepth)
		if reads {
			read |= 1 << r
		}
		if !survives {
			gone |= 1 << r
		}
	}
	return read, gone
}

// callee looks into the function at target: whether it may read what register r holds at
// its entry, and whether that may still be in r when it returns. Registers that a callee
// must preserve are no arguments; of them only that they survive is said.
func (c *code) callee(target uint64, r, deep int) (reads, survives bool) {
	if !x86.CallerSaved.Has(r) {
		return c.thunk(target, r), true
	}
	if deep == 0 {
		return true, true
	}
	q := question{target, r, deep}
	a, ok := c.answers[q]
	if !ok {
		a.reads, a.survives = c.walkCallee(target, r, deep)
		c.answers[q] = a
	}
	return a.reads, a.survives
}

// question is one about a callee, and calleeAnswer what callee says. A program asks the same ones behind
// each call of time(), of the functions that all its own call.
type question struct {
	target  uint64
	r, deep int
}

type calleeAnswer struct{ reads, survives bool }

// walkCallee answers for callee from the instructions. A function that drops or replaces its
// return address is none: it goes on elsewhere, with all registers.
func (c *code) walkCallee(target uint64, r, deep int) (reads, survives bool) {
	depths := map[uint64]x86.Depth{target: {HasSP: true}}
	work := []uint64{target}
	var d x86.Depth // behind the instruction
	to := func(at uint64) {
		if _, seen := depths[at]; !seen {
			depths[at] = d
			work = append(work, at)
		}
	}
	for n := 0; len(work) > 0 && !(reads && survives); n++ {
		at := work[len(work)-1]
		work = work[:len(work)-1]
		i, ok := c.at(at)
		if !ok || !i.Known || n >= maxLiveness {
			return true, true
		}
		if d = depths[at]; d.ReturnsElsewhere(&i) {
			return true, true
		}
		d.Over(&i)
		if i.Reads.Has(r) || i.Partial.Has(r) {
			reads = true
			if i.Flow == x86.FlowNext && i.Operands.Has(r) && !i.Writes.Has(r) {
				survives = true // perhaps saved, to be restored later
			}
		}
		if i.Writes.Has(r) {
			continue
		}
		switch i.Flow {
		case x86.FlowNext:
			to(i.Next())
		case x86.FlowCond:
			to(i.Target)
			to(i.Next())
		case x86.FlowJump:
			to(i.Target)
		case x86.FlowCall:
			in, out := c.callee(i.Target, r, deep-1)
			reads = reads || in
			if out && !c.starts.has(i.Next()) {
				to(i.Next())
			}
		case x86.FlowCallInd:
			reads = reads || x86.ArgRegs.Has(r)
		case x86.FlowIndirect:
			if _, fixed := i.MemVaddr(); !fixed {
				return true, true
			}
			reads = reads || x86.ArgRegs.Has(r)
		case x86.FlowRet:
			survives = true
		case x86.FlowStop:
		}
	}
	return reads, survives
}

// maxThunk is how many instructions of a function are looked at for a jump to a register that it
// must preserve.
const maxThunk = 8

// thunk reports whether the function at target does nothing but jump to what register r holds: by a
// jump, or by a return, as gcc's and clang's -mindirect-branch and -mretpoline have it.
func (c *code) thunk(target uint64, r int) bool {
	d := x86.Depth{HasSP: true}
	for range maxThunk {
		i, ok := c.at(target)
		if !ok {
			return false
		}
		if i.Flow == x86.FlowIndirect || i.Flow == x86.FlowCallInd {
			through, direct := i.Through()
			return direct && through == r
		}
		if d.ReturnsElsewhere(&i) {
			return i.Operands.Has(r)
		}
		d.Over(&i)
		switch i.Flow {
		case x86.FlowNext:
			target = i.Next()
		case x86.FlowJump:
			target = i.Target
		case x86.FlowCall:
			target, d = i.Target, x86.Depth{HasSP: true}
		default:
			return false
		}
		if i.Writes.Has(r) {
			return false
		}
	}
	return false
}
