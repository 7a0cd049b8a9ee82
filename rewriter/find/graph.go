// The successors of an instruction: the only control flow graph, for all questions about code.

package find

import (
	"iter"
	"strings"

	"golang.org/x/arch/x86/x86asm"

	"vfix.dev/vfix/rewriter/elf"
	"vfix.dev/vfix/rewriter/x86"
)

// worklist visits addresses with a state each, until no state changes.
type worklist[S comparable] struct {
	state map[uint64]S
	todo  []uint64
	join  func(old, fresh S) S
}

func newWorklist[S comparable](join func(old, fresh S) S) *worklist[S] {
	return &worklist[S]{state: make(map[uint64]S), join: join}
}

// addresses visits each address once.
func addresses(from ...uint64) *worklist[struct{}] {
	w := newWorklist(func(old, _ struct{}) struct{} { return old })
	for _, at := range from {
		w.add(at, struct{}{})
	}
	return w
}

// add joins s into the state at an address, and schedules a visit if that changes the state.
func (w *worklist[S]) add(at uint64, s S) {
	old, seen := w.state[at]
	if seen {
		if s = w.join(old, s); s == old {
			return
		}
	}
	w.state[at] = s
	w.todo = append(w.todo, at)
}

// run visits until no address is left; it returns false after most visits, or if step returns false.
func (w *worklist[S]) run(most int, step func(at uint64, s S) bool) bool {
	for n := 0; len(w.todo) > 0; n++ {
		at := w.todo[len(w.todo)-1]
		w.todo = w.todo[:len(w.todo)-1]
		if n >= most || !step(at, w.state[at]) {
			return false
		}
	}
	return true
}

// next returns the successors of i, an instruction of b: the next instruction, the target of a branch, the targets
// of a jump's table, and, for any instruction, the landing pads, as a signal handler may throw
// (-fnon-call-exceptions). A called function is not followed. known is false after an indirect jump that no table
// explains, and if the table of landing pads is not understood.
func (c *code) next(b *body, i *x86.Instr) (all []uint64, known bool) {
	switch i.Flow {
	case x86.FlowCond:
		return []uint64{i.Target, i.Next()}, true
	case x86.FlowJump:
		return []uint64{i.Target}, true
	case x86.FlowNext, x86.FlowCall, x86.FlowCallInd:
		all, known = c.pads(i)
		if !i.Calls() || c.comesBack(i, calleeDepth) {
			all = append(all, i.Next())
		}
		return all, known
	case x86.FlowIndirect:
		if _, fixed := i.MemVaddr(); fixed { // a PLT entry, or a tail call through a pointer
			return nil, true
		}
		if b == nil || b.lens[i.Addr] == 0 { // of another function, into which the code continued
			b = c.holder(i.Addr)
		}
		if b != nil && c.explained(b, i) {
			all = b.targets
		}
		return all, len(all) > 0
	}
	return nil, true
}

// maxSlice is how many instructions before an indirect jump are examined.
const maxSlice = 16

// explained reports whether the jump i of b goes to an entry of a table of words, to an address in an instruction, or to
// the sum of one and an entry of a table of offsets: then its target is one of the targets of b. If the instructions
// before i do not show this, it may go anywhere: a table of structures may lead to parts that nothing else refers to.
func (c *code) explained(b *body, i *x86.Instr) bool {
	target, at := x86.Regs(0), i.Addr
	number := x86.Regs(0) // of an entry, and the table
	if r, ok := i.Through(); ok {
		target = x86.RegsOf(r)
	} else if number = i.AddressRegs(); !inTable(i) {
		return b.onStack(i)
	}
	index := x86.Regs(0) // is added for the address of an entry, as by gcc -O0: one of them is 4 times a number
	sum, offset := false, false
	for range maxSlice {
		p, ok := c.before(b, at)
		if !ok {
			break
		}
		at = p.Addr
		sets := p.Writes | p.Partial
		dst, width, _ := p.ArgGPR(0)
		src, srcWidth, fromReg := p.ArgGPR(1)
		m, inMemory := p.Mem()
		if sets&number != 0 && multiplies(&p) {
			return false // an entry is more than one word
		} else if sets&number != 0 {
			number = number&^sets | p.Operands
		}
		if sets&(target|index) == 0 {
			continue
		}
		_, fixed := p.MemVaddr()
		entry := inTable(&p)
		switch {
		case sets&index != 0 && p.Op == x86asm.LEA && m.Base == 0 && m.Scale == halfSize:
			index = 0
		case sets&index != 0 && p.Op != x86asm.LEA:
			return false
		case p.Op == x86asm.MOV && width == 64 && srcWidth == 64, sum && p.Op == x86asm.MOVSXD && fromReg:
			target = target&^x86.RegsOf(dst) | x86.RegsOf(src)
		case p.IsConditionalMove() && fromReg && width == 64:
			target |= x86.RegsOf(src)
		case p.Op == x86asm.ADD && fromReg && width == 64 && !sum:
			sum = true
			target |= x86.RegsOf(src)
		case p.Op == x86asm.ADD && entry && width == 64 && !sum:
			sum, offset = true, true
		case sum && !offset && (entry || m.Scale == 1 && p.MemBytes == halfSize) && (p.Op == x86asm.MOVSXD || p.Op == x86asm.MOV):
			if offset = true; !entry {
				index = p.AddressRegs()
			}
			target &^= x86.RegsOf(dst)
		case sum && p.Op == x86asm.CDQE:
		case p.Op == x86asm.LEA && fixed, p.Op == x86asm.MOV && !inMemory && !fromReg,
			p.Op == x86asm.MOV && p.MemBytes == x86.WordSize && (fixed || entry || b.onStack(&p)) && !sum:
			target &^= x86.RegsOf(dst)
		default:
			return false
		}
		if entry {
			number |= p.AddressRegs()
		}
	}
	return sum == offset && index == 0 && (target == 0 || sum)
}

// before returns the instruction of b that ends at an address, and that only goes to the next one or jumps by a
// condition.
func (c *code) before(b *body, at uint64) (p x86.Instr, ok bool) {
	for n := uint64(1); b != nil && n <= x86.MaxLen; n++ {
		if uint64(b.lens[at-n]) == n {
			p, _ = c.at(at - n)
			return p, p.Flow == x86.FlowNext || p.Flow == x86.FlowCond
		}
	}
	return p, false
}

// chosen reports whether the call i of b goes through memory, or through a register that is seen to be loaded with
// more than the address of one function.
func (c *code) chosen(b *body, i *x86.Instr) bool {
	r, ok := i.Through()
	if !ok {
		return true
	}
	for p, ok := c.before(b, i.Addr); ok; p, ok = c.before(b, p.Addr) {
		if (p.Writes | p.Partial).Has(r) {
			_, fixed := p.MemVaddr()
			_, imm := p.Args[1].(x86asm.Imm)
			return !(p.Op == x86asm.MOV && imm || p.Op == x86asm.LEA && fixed)
		}
	}
	return false
}

// inTable reports whether the memory operand of i is an entry of a table that has nothing else.
func inTable(i *x86.Instr) bool {
	m, _ := i.Mem()
	return m.Index != 0 && int(m.Scale) == i.MemBytes
}

// multiplies reports whether i computes a multiple of a number.
func multiplies(i *x86.Instr) bool {
	m, _ := i.Mem()
	switch i.Op {
	case x86asm.SHL, x86asm.IMUL:
		return true
	case x86asm.ADD:
		return i.Args[0] == i.Args[1]
	}
	return i.Op == x86asm.LEA && m.Index != 0 && (m.Scale > 1 || m.Base == m.Index)
}

// onStack reports whether the memory operand of i is a word of the stack.
func (b *body) onStack(i *x86.Instr) bool {
	m, _ := i.Mem()
	return m.Index == 0 && (m.Base == x86asm.RSP || m.Base == x86asm.RBP && b.hasFrame)
}

// pads returns the landing pads of an exception at i; known is false if the table of its function is not
// understood.
func (c *code) pads(i *x86.Instr) (all []uint64, known bool) {
	d, _ := c.fn.around(i.Addr)
	if d.LSDA == 0 {
		return nil, true
	}
	t, seen := c.landing[d.Start]
	if !seen {
		t.pads, t.known = c.f.LandingPads(d)
		c.landing[d.Start] = t
	}
	for _, p := range t.pads {
		if last := i.Next() - 1; last >= p.Start && last < p.End {
			all = append(all, p.At)
		}
	}
	return all, t.known
}

// landingPads are the landing pads of a function, if its table is understood.
type landingPads struct {
	pads  []elf.Pad
	known bool
}

const (
	// maxReturns is the maximum number of instructions to search for a return, calleeDepth the maximum depth of
	// calls.
	maxReturns  = 4000
	calleeDepth = 4
)

// comesBack reports whether the call i may return: all calls may except those that are proved to end the program,
// to leave by an exception or a long jump, or not to return for another reason. depth is the remaining depth of
// calls to examine.
func (c *code) comesBack(i *x86.Instr, depth int) bool {
	v, fixed := i.MemVaddr()
	switch {
	case i.Flow == x86.FlowCall:
		return c.returns(i.Target, depth) && !c.last(i)
	case fixed && endless(c.importAt(v)):
		return false
	}
	return !c.last(i)
}

// maxPadding is the maximum padding between two functions, in bytes.
const maxPadding = 256

// last reports whether the unwind tables show that the code does not continue after the call i: it is the last
// instruction that they describe as one function, and only padding separates it from the next one, which begins
// with another depth of the stack.
func (c *code) last(i *x86.Instr) bool {
	d, _ := c.fn.around(i.Addr)
	if d.FDE == 0 || d.End != i.Next() {
		return false
	}
	at := d.End
	for n := 1; n > 0 && at-d.End < maxPadding && !c.fn.starts.has(at); at += uint64(n) {
		n = x86.Padding(c.bytes(at))
	}
	before, ok := c.f.CFA(d, i.Addr)
	behind, known := c.f.CFA(c.fn.at(at), at)
	if !ok || !known || behind.Reg != elf.DwarfRSP || c.unbalanced(at, behind) {
		return false
	}
	// The word at rbp was saved above rsp, and a call writes below rsp.
	return before.Reg == elf.DwarfRSP && before.Off != behind.Off || before == elf.FrameCFA && behind == elf.EntryCFA
}

// maxUnbalanced is how many instructions of a function are searched for a return.
const maxUnbalanced = 200

// unbalanced reports whether the function at an address returns with another depth of the stack than its depth at
// the start in the unwind tables.
func (c *code) unbalanced(at uint64, begin elf.CFA) bool {
	d := x86.Depth{SP: x86.WordSize - int64(begin.Off), HasSP: true}
	for i := range c.straight(at, maxUnbalanced) {
		if i.Flow == x86.FlowRet {
			return d.HasSP && d.SP != 0
		}
		d.Over(i)
	}
	return false
}

// returns reports whether the function at target may return.
func (c *code) returns(target uint64, deep int) bool {
	if r, ok := c.returning[target]; ok || deep == 0 {
		return r || !ok
	}
	c.returning[target] = true // if it calls itself
	if c.skips(target) {
		c.returning[target] = false
		return false
	}
	w := addresses(target)
	ended := w.run(maxReturns, func(at uint64, _ struct{}) bool {
		i, ok := c.at(at)
		v, fixed := i.MemVaddr()
		switch {
		case !ok || i.Flow == x86.FlowRet || i.Flow == x86.FlowIndirect && !(fixed && endless(c.importAt(v))):
			return false
		case i.Flow == x86.FlowCall && c.redirects(i.Target): // to what may return
			return false
		case i.Flow == x86.FlowIndirect, i.Calls() && !c.comesBack(&i, deep-1):
			return true
		}
		if i.Calls() { // it may return
			i.Flow = x86.FlowNext
		}
		all, known := c.next(nil, &i)
		for _, to := range all {
			w.add(to, struct{}{})
		}
		return known
	})
	c.returning[target] = !ended
	return !ended
}

// redirects reports whether the function at target is seen to replace its return address, as thunks do.
func (c *code) redirects(target uint64) bool {
	d := x86.Depth{HasSP: true}
	for i := range c.straight(target, maxThunk) {
		if d.ReturnsElsewhere(i) {
			return true
		}
		d.Over(i)
	}
	return false
}

// skips reports whether the function at target changes its return address: its calls are followed by data, to
// which the return address points.
func (c *code) skips(target uint64) (skipped bool) {
	if known, ok := c.skipping[target]; ok {
		return known
	}
	defer func() { c.skipping[target] = skipped }()
	d := x86.Depth{HasSP: true}
	var address x86.Regs // registers with it
	for i := range c.straight(target, maxThunk) {
		dst, width, _ := i.ArgGPR(0)
		p := d.Place(i)
		changed := (i.Writes | i.Partial) & address
		switch {
		case !d.HasSP || i.Flow != x86.FlowNext && i.Flow != x86.FlowJump && i.Flow != x86.FlowRet:
			return false
		case i.Op != x86asm.MOV && d.ReturnsElsewhere(i), changed&i.Operands != 0:
			return true
		case width == 64 && (i.Op == x86asm.POP && d.SP == 0 || i.Op == x86asm.MOV && p.Exact && p.Off == 0):
			address |= x86.RegsOf(dst)
		default:
			address &^= changed
		}
		d.Over(i)
	}
	return false
}

// straight returns at most most instructions from an address on, past calls and conditional jumps, and along
// jumps, up to one without a known successor.
func (c *code) straight(at uint64, most int) iter.Seq[*x86.Instr] {
	return func(yield func(*x86.Instr) bool) {
		for range most {
			i, ok := c.at(at)
			if !ok || !yield(&i) || i.Flow == x86.FlowRet || i.Flow == x86.FlowStop || i.Flow == x86.FlowIndirect {
				return
			}
			if at = i.Next(); i.Flow == x86.FlowJump {
				at = i.Target
			}
		}
	}
}

// importAt returns the name of the other object's function whose address relocation stores in the word at vaddr;
// "" for none.
func (c *code) importAt(vaddr uint64) string {
	if c.imports == nil {
		c.imports = make(map[uint64]string)
		c.f.EachImport(func(at uint64, name string) {
			if len(c.imports) < elf.MaxStarts && (endless(name) || twice[name]) {
				c.imports[at] = name
			}
		})
	}
	return c.imports[vaddr]
}

// endless reports whether a library function of this name does not return. Sources: ISO C, POSIX, the Linux
// Standard Base, the Itanium C++ ABI; libstdc++'s functexcept.h.
func endless(name string) bool {
	switch name {
	case "abort", "exit", "_exit", "_Exit", "quick_exit", "pthread_exit", "longjmp", "_longjmp", "siglongjmp", "__longjmp_chk",
		"__assert", "__assert_fail", "__assert_perror_fail", "__stack_chk_fail", "__chk_fail", "__fortify_fail",
		"_Unwind_Resume", "__cxa_throw", "__cxa_rethrow", "__cxa_bad_cast", "__cxa_bad_typeid",
		"__cxa_pure_virtual", "__cxa_throw_bad_array_new_length", "__cxa_call_unexpected", "_ZSt9terminatev", "__libc_start_main":
		return true
	}
	return strings.HasPrefix(name, "_ZSt") && strings.Contains(name, "__throw_")
}

// twice are the functions that return again later, when the stack has newer values.
var twice = map[string]bool{"setjmp": true, "_setjmp": true, "sigsetjmp": true, "__sigsetjmp": true, "savectx": true, "vfork": true,
	"__vfork": true, "getcontext": true, "swapcontext": true}

// returnsTwice reports whether i calls such a function: by its name, or because it takes its return address from the
// stack.
func (c *code) returnsTwice(i *x86.Instr) bool {
	if v, fixed := i.MemVaddr(); fixed {
		return twice[c.importAt(v)]
	}
	if i.Flow != x86.FlowCall {
		return false
	}
	const most = 48 // instructions
	d := x86.Depth{HasSP: true}
	for p := range c.straight(i.Target, most) {
		v, fixed := p.MemVaddr()
		at := d.Place(p)
		switch {
		case p.Flow == x86.FlowIndirect:
			return fixed && twice[c.importAt(v)]
		case p.Op == x86asm.POP && d.HasSP && d.SP == 0, p.Op == x86asm.MOV && at.Exact && at.Off == 0:
			return true
		}
		d.Over(p)
	}
	return false
}
