// Where a value goes: from the instruction that loads the address of a vsyscall function,
// forward along all paths, until every copy of it is called, stored, compared or dead.

package rewriter

import (
	"fmt"

	"vfix.dev/vfix/rewriter/x86"
)

// label says what a register may hold; a register has several where paths meet.
type label uint8

const (
	other   label = 1 << iota // anything else
	exact                     // the address
	chosen                    // the address, picked by a conditional move
	xored                     // the address, xor %fs:0x30: the first half of PTR_MANGLE
	mangled                   // the address after PTR_MANGLE: xor %fs:0x30, rol $0x11
	spent                     // the address, left in a register that C code may change by a call of the page
)

// The two constants of PTR_MANGLE, glibc's sysdeps/unix/sysv/linux/x86_64/pointer_guard.h.
const (
	guardOffset = 0x30
	guardRotate = 0x11
)

// plain are the labels of a value that may be used as an address.
const plain = exact | chosen

// value is the state of all registers, and of the tracked words of the stack, at one
// instruction. A word of the stack without a label holds something else.
type value struct {
	reg   [x86.NumRegs]label
	stack [maxSlots]label
}

// unknownValue is a state that holds the address nowhere.
func unknownValue() (v value) {
	for r := range v.reg {
		v.reg[r] = other
	}
	return v
}

// held returns the registers that may hold one of the labels.
func (v *value) held(l label) x86.Regs {
	var s x86.Regs
	for r := range v.reg {
		if v.reg[r]&l != 0 {
			s |= 1 << r
		}
	}
	return s
}

// use is one instruction that uses the value.
type use struct {
	addr uint64
	what string
}

// flow is what was found about one value.
type flow struct {
	c        *code
	fn       Function
	origin   uint64 // of the instruction that loads it
	state    map[uint64]value
	work     []uint64
	calls    map[uint64]*x86.Instr // calls and jumps through a register
	exact    bool                  // one of them without a conditional move on the way
	compares []use
	derefs   []use    // used as the base of a memory operand
	slots    []uint64 // variables it was stored to, unmangled and after a conditional move
	stored   []use    // after PTR_MANGLE
	returns  []use    // in rax, at a ret
	left     []use    // in another register that C code may change, at a ret
	escapes  []use    // everything else

	frame   frame           // of the function; nil: words of the stack are not followed
	words   []int64         // the words of the stack that held the value, by their places in the frame
	onStack bool            // one of them held it
	copied  bool            // a vector register copies it on, with what stands beside it
	stores  bool            // the instruction at origin stores it in the first of them
	loads   label           // what it stores
	whole   bool            // half an address became one
	numbers []use           // of half an address otherwise
	mixed   map[uint64]bool // of calls: those through what may hold something else, too
	page    map[uint64]bool // calls of the page alone, to which an address may be passed
}

// maxFlow bounds the instructions that one value is followed through.
const maxFlow = 20000

// newFlow returns a flow of the value that the instruction at origin loads. fn is the function
// of the page whose address it is.
func newFlow(c *code, origin uint64, fn Function, fr frame) *flow {
	return &flow{c: c, fn: fn, origin: origin, frame: fr, loads: exact, state: make(map[uint64]value), calls: make(map[uint64]*x86.Instr), mixed: make(map[uint64]bool)}
}

// follow follows what reg holds from the instruction at vaddr on.
func follow(c *code, origin, vaddr uint64, reg int, fn Function, fr frame) *flow {
	f := newFlow(c, origin, fn, fr)
	v := unknownValue()
	v.reg[reg] = exact
	f.run(vaddr, v)
	return f
}

// followWord follows the word of the stack at off, which the instruction at origin stores.
func followWord(c *code, i *x86.Instr, off int64, fn Function, fr frame) *flow {
	f := newFlow(c, i.Addr, fn, fr)
	f.words, f.onStack, f.stores = []int64{off}, true, true
	v := unknownValue()
	v.stack[0] = exact
	f.run(i.Next(), v)
	return f
}

// run follows the state v from the instruction at vaddr on.
func (f *flow) run(vaddr uint64, v value) {
	f.to(vaddr, v)
	for n := 0; len(f.work) > 0; n++ {
		if n >= maxFlow {
			f.escape(f.origin, "too much code to follow")
			break
		}
		at := f.work[len(f.work)-1]
		f.work = f.work[:len(f.work)-1]
		f.step(at, f.state[at])
	}
}

func (f *flow) escape(addr uint64, format string, a ...any) {
	f.escapes = append(f.escapes, use{addr, fmt.Sprintf(format, a...)})
}

// to joins v into the state at vaddr and queues it where that is news.
func (f *flow) to(vaddr uint64, v value) {
	if v.held(^other) == 0 && !v.anyStack() {
		return // nothing left to follow
	}
	old, seen := f.state[vaddr]
	joined := v
	for r := range joined.reg {
		joined.reg[r] |= old.reg[r]
	}
	for n := range joined.stack {
		if joined.stack[n] == 0 || seen && old.stack[n] == 0 {
			joined.stack[n] |= other // nothing known of it on one path
		}
		joined.stack[n] |= old.stack[n]
	}
	if seen && joined == old {
		return
	}
	f.state[vaddr] = joined
	f.work = append(f.work, vaddr)
}

// step moves the state v over the instruction at vaddr.
func (f *flow) step(vaddr uint64, v value) {
	if vaddr == f.origin {
		// Back at the load: what it loads gets the same value again.
		if i, ok := f.c.at(vaddr); ok {
			f.kill(&v, i.Writes)
			if f.stores {
				v.stack[0] = f.loads
			}
			f.to(i.Next(), v)
		}
		return
	}
	i, ok := f.c.at(vaddr)
	switch {
	case !ok:
		f.escape(vaddr, "reaches bytes that are no known instruction")
		return
	case !i.Known:
		f.escape(vaddr, "reaches the instruction %s, whose effects are not known", i.Op)
		return
	}
	switch i.Flow {
	case x86.FlowNext:
		f.transfer(&i, &v)
		f.to(i.Next(), v)
	case x86.FlowCond:
		f.conditionReads(&i, &v)
		f.to(i.Target, v)
		f.to(i.Next(), v)
	case x86.FlowJump:
		if _, ok := f.frame[i.Target]; !ok {
			f.afterCall(&i, &v) // a tail call
		}
		f.to(i.Target, v)
	case x86.FlowCall, x86.FlowCallInd:
		f.call(&i, &v)
		if !f.c.starts.has(i.Next()) { // else the callee does not return
			f.to(i.Next(), v)
		}
	case x86.FlowIndirect:
		f.indirect(&i, &v)
	case x86.FlowRet:
		f.ret(&i, &v)
	case x86.FlowStop:
	}
}

func (f *flow) kill(v *value, s x86.Regs) {
	for r := range v.reg {
		if s.Has(r) {
			v.reg[r] = other
		}
	}
}

// conditionReads catches jrcxz and loop, which read rcx.
func (f *flow) conditionReads(i *x86.Instr, v *value) {
	if i.Reads.Has(x86.Rcx) && v.reg[x86.Rcx]&plain != 0 {
		f.escape(i.Addr, "read by %s", i.Op)
	}
	f.kill(v, i.Partial)
}

// called records a call or jmp through a register or a word of the stack that may hold the
// value; it reports whether this is one.
func (f *flow) called(i *x86.Instr, v *value) bool {
	r, ok := i.Through()
	if !ok {
		return f.calledSlot(i, v)
	}
	if v.reg[r]&^other == 0 {
		return false
	}
	f.record(i, v, v.reg[r], r)
	return true
}

// record records a call or jmp to what has the label l, which register r holds.
func (f *flow) record(i *x86.Instr, v *value, l label, r int) {
	switch {
	case l&address == 0:
		if l&derived != 0 {
			f.whole = true
			f.escape(i.Addr, "called after arithmetic")
		}
		return
	case l&(xored|mangled) != 0:
		f.escape(i.Addr, "called while mangled")
		return
	}
	f.calls[i.Addr] = i
	if l&other != 0 {
		f.mixed[i.Addr] = true
	}
	f.exact = f.exact || l&exact != 0
	// Only the function's own arguments are passed on; the register called through is none
	// beyond them.
	for n, arg := range [...]int{x86.Rdi, x86.Rsi, x86.Rdx} {
		switch {
		case n >= f.fn.args() || arg == r:
		case v.reg[arg]&plain != 0:
			f.escape(i.Addr, "passed as an argument")
		case v.reg[arg]&half != 0:
			f.number(i)
		}
	}
}

// afterPage moves the state over a call of the page, which changes rax alone. What C code may
// change is followed on, but a caller does not count on it.
func (f *flow) afterPage(i *x86.Instr, v *value) {
	v.reg[x86.Rax] = other
	for r := range v.reg {
		if l := v.reg[r]; x86.CallerSaved.Has(r) && l&address != 0 {
			v.reg[r] = l&other | spent
		}
	}
	f.afterCall(i, v)
}

// args is how many arguments the function has.
func (f Function) args() int {
	return [...]int{Gettimeofday: 2, Time: 1, Getcpu: 3}[f]
}

// call moves the state over a call.
func (f *flow) call(i *x86.Instr, v *value) {
	if f.page[i.Addr] || f.called(i, v) {
		f.afterPage(i, v)
		return
	}
	f.operands(i, v)
	f.afterCall(i, v)
	if i.Flow == x86.FlowCallInd {
		f.arguments(i, v)
		f.kill(v, x86.CallerSaved)
		return
	}
	for r := range v.reg {
		if v.reg[r]&^other == 0 {
			continue
		}
		// gcc's -fipa-ra keeps values in registers that a callee in the same unit is known
		// to leave alone: look into the callee rather than trust the convention.
		reads, survives := f.c.callee(i.Target, r, calleeDepth)
		switch {
		case reads && v.reg[r]&(plain|xored) != 0:
			f.escape(i.Addr, "passed as an argument")
		case reads:
			f.number(i)
		}
		if x86.CallerSaved.Has(r) && !survives {
			v.reg[r] = other
		}
	}
}

// arguments records the value in a register that may be an argument of a callee.
func (f *flow) arguments(i *x86.Instr, v *value) {
	if v.held(plain|xored)&x86.ArgRegs != 0 {
		f.escape(i.Addr, "passed as an argument")
	}
	if v.held(half)&x86.ArgRegs != 0 {
		f.number(i)
	}
}

// operands records the value in the address of a memory operand.
func (f *flow) operands(i *x86.Instr, v *value) {
	if i.AddressRegs()&v.held(^other) != 0 {
		f.derefs = append(f.derefs, use{i.Addr, "used as a memory address"})
	}
}

// indirect ends a path at a jump through a register or memory.
func (f *flow) indirect(i *x86.Instr, v *value) {
	if f.page[i.Addr] || f.called(i, v) {
		return
	}
	f.operands(i, v)
	if _, fixed := i.MemVaddr(); fixed { // a PLT entry, or a tail call through a pointer
		f.arguments(i, v)
		f.kept(i, v)
		return
	}
	f.escape(i.Addr, "reaches an indirect jump")
}

// kept records the value in a register that a function must restore.
func (f *flow) kept(i *x86.Instr, v *value) {
	if v.held(plain)&^x86.CallerSaved != 0 {
		f.escape(i.Addr, "left in a callee-saved register")
	}
}

// ret ends a path at the return.
func (f *flow) ret(i *x86.Instr, v *value) {
	if f.returnsTo(i, v) {
		return
	}
	f.kept(i, v)
	if v.held(half)&(x86.RegsOf(x86.Rax, x86.Rdx)|^x86.CallerSaved) != 0 {
		f.number(i)
	}
	switch {
	case v.reg[x86.Rax]&(plain|xored) != 0:
		f.returns = append(f.returns, use{i.Addr, "returned"})
	case v.reg[x86.Rdx]&plain != 0:
		f.escape(i.Addr, "left in rdx, the second half of a return value")
	case v.held(plain)&x86.CallerSaved != 0:
		f.left = append(f.left, use{i.Addr, "left in a register at the return"})
	}
}

// frame returns the frame of b's function, computed once; nil where it has none that is known.
func (c *code) frame(b *body) frame {
	if b == nil || b.damaged != "" {
		return nil
	}
	if !b.framed {
		b.framed, b.frame = true, c.frameOf(b)
	}
	return b.frame
}
