// The path of a value: from the instruction that loads the address of a vsyscall function, forward along all
// paths, until every copy of it is called, stored, compared or dead. This determines whether it has a use other
// than a call, a jump or a copy.

package find

import (
	"fmt"
	"slices"

	"golang.org/x/arch/x86/x86asm"

	"vfix.dev/vfix/rewriter/x86"
)

// label is what a register may have; a register has several labels after paths meet.
type label uint16

const (
	other   label = 1 << iota // anything else
	exact                     // the address
	chosen                    // the address, picked by a conditional move
	xored                     // the address, xor %fs:0x30: the first half of PTR_MANGLE
	mangled                   // the address after PTR_MANGLE: xor %fs:0x30, rol $0x11
)

// The two constants of PTR_MANGLE, glibc's sysdeps/unix/sysv/linux/x86_64/pointer_guard.h.
const (
	guardOffset = 0x30
	guardRotate = 0x11
)

// plain are the labels of a value that is usable as an address.
const plain = exact | chosen | spent

// value is the state of all registers, and of the tracked words of the stack, at one instruction. A word of the
// stack without a label has an unrelated value.
type value struct {
	reg   [x86.NumRegs]label
	stack [maxSlots]label
}

// unknownValue returns a state without the address.
func unknownValue() (v value) {
	for r := range v.reg {
		v.reg[r] = other
	}
	return v
}

// held returns the registers that may have one of the labels.
func (v *value) held(l label) x86.Regs {
	var s x86.Regs
	for r := range v.reg {
		if v.reg[r]&l != 0 {
			s |= 1 << r
		}
	}
	return s
}

// how is the use of a value other than a call.
type how uint8

const (
	compared    how = iota
	based           // as an address of memory
	kept            // in a variable, after a conditional move
	hidden          // stored after PTR_MANGLE
	returned        // in rax, at a ret
	left            // in another register that C code may change, at a ret; or somewhere, at a trap
	counted         // half of it, used as a number
	firstEscape     // all other uses
)

const (
	tooMuch = firstEscape + iota
	noInstruction
	noEffects
	computed
	calledMangled
	passed
	readBy
	usedBy
	usedInMemory
	pushed
	toKernel
	inMemory
	truncated
	calleeSaved
	noTarget
	elsewhere
	noPads
	tooManyPlaces
	callersFrame
	noFrame
	onStackSeen
	overwritten
	throughArray
)

var howTexts = map[how]string{
	compared: "compared", based: "used as a memory address", hidden: "stored after PTR_MANGLE", returned: "returned",
	left: "left in a register at the return or a trap", counted: "used as a number", tooMuch: "too much code to follow",
	noInstruction: "reaches bytes that are not a known instruction", noEffects: "reaches the instruction %v, whose effects are not known",
	computed: "called after arithmetic", calledMangled: "called while mangled", passed: "passed as an argument",
	readBy: "read by %v", usedBy: "used by %v", usedInMemory: "used by %v in memory", pushed: "pushed on the stack",
	toKernel: "passed to a system call", inMemory: "stored in memory", truncated: "truncated",
	calleeSaved: "left in a callee-saved register", noTarget: "reaches an indirect jump",
	elsewhere: "reaches a return to an unknown place", noPads: "reaches code whose landing pads are not understood", tooManyPlaces: "stored in too many places",
	callersFrame: "stored in the frame of a caller", onStackSeen: "stored on the stack, and %s", noFrame: "on the stack of an unknown frame",
	overwritten: "overwritten in part", throughArray: "called through an array on the stack",
}

// use is one instruction that uses the value.
type use struct {
	addr uint64
	how  how
	op   x86asm.Op
	slot uint64 // of kept: the variable
	why  string // of onStackSeen
}

func (u use) String() string {
	switch text := howTexts[u.how]; u.how {
	case noEffects, readBy, usedBy, usedInMemory:
		return fmt.Sprintf(text, u.op)
	case onStackSeen:
		return fmt.Sprintf(text, u.why)
	default:
		return text
	}
}

// found is the result for one value.
type found struct {
	uses   []use
	calls  map[uint64]*x86.Instr // calls and jumps through a register
	mixed  map[uint64]bool       // of calls: those through a register that may also have another value
	exact  bool                  // one of them without a conditional move on the way
	whole  bool                  // half an address was extended to a whole one
	copied bool                  // a vector register copies it with the bytes beside it
	shown  bool                  // it is in a register at an instruction that may fault, or that calls: a signal handler can see it
}

// first returns the first use of a kind; for firstEscape, of that kind and all following ones.
func (f *found) first(h how) (use, bool) {
	i := slices.IndexFunc(f.uses, func(u use) bool { return u.how == h || h == firstEscape && u.how > h })
	if i < 0 {
		return use{}, false
	}
	return f.uses[i], true
}

// has reports whether a use of the kind exists.
func (f *found) has(h how) bool { _, ok := f.first(h); return ok }

// flow is the following of one value.
type flow struct {
	*found
	*worklist[value]
	c      *code
	fn     Function // of the page, whose address it is
	origin uint64   // of the instruction that loads it
	loads  label    // the label of what it loads
	into   x86.Regs // the registers that it loads
	stores bool     // it stores this in the first of words
	paths  bool     // paths without the value are followed as well: a call may be mixed by them
	body   *body    // the function that is followed; nil: not known

	frame   frame           // of the function; nil: words of the stack are not followed
	words   []int64         // the words of the stack that had the value, by their offsets in the frame
	onStack bool            // one of them had it
	given   [maxSlots]bool  // those of them that had it at a call
	taken   [maxSlots]bool  // those of them that the function itself reads, or calls through
	saves   x86.Regs        // deep down: the registers in which the caller keeps it
	page    map[uint64]bool // calls of the page alone, to which an address may be passed

	deep     int   // how many calls deep
	returned value // deep down: what registers hold at a return
	inner    map[question]value
}

// question is a question about a callee: the use of the value in these registers.
type question struct {
	target uint64
	reg    [x86.NumRegs]label
}

// maxFlow is the maximum number of instructions through which one value is followed.
const maxFlow = 20000

// newFlow returns a flow of the value that the instruction at origin, in b, loads: the address of fn.
func newFlow(c *code, origin uint64, fn Function, b *body) *flow {
	return &flow{
		found: &found{calls: make(map[uint64]*x86.Instr), mixed: make(map[uint64]bool)}, worklist: newWorklist(joinValues),
		c: c, fn: fn, origin: origin, loads: exact, body: b, frame: c.frame(b), inner: make(map[question]value),
	}
}

func joinValues(old, v value) value {
	for r := range v.reg {
		v.reg[r] |= old.reg[r]
	}
	for n := range v.stack {
		v.stack[n] |= old.stack[n]
	}
	return v
}

// from follows a value with the label l in regs from the instruction at vaddr on.
func (f *flow) from(vaddr uint64, l label, regs x86.Regs) *flow {
	f.loads, f.into = l, regs
	v := unknownValue()
	f.load(&v)
	f.start(vaddr, v)
	return f
}

// load sets the registers that the origin loads.
func (f *flow) load(v *value) {
	for r := range v.reg {
		if f.into.Has(r) {
			v.reg[r] = f.loads
		}
	}
}

// stored follows a value with the label l that the instruction i stores in the word of the stack at off.
func (f *flow) stored(i *x86.Instr, l label, off int64) *flow {
	f.words, f.onStack, f.stores, f.loads = []int64{off}, true, true, l
	v := unknownValue()
	v.stack[0] = l
	f.start(i.Next(), v)
	return f
}

// dead reports whether no path from vaddr on, in b, reads one of the registers before it is overwritten.
func (c *code) dead(vaddr uint64, regs x86.Regs, b *body) bool {
	f := newFlow(c, 0, Time, b).from(vaddr, exact, regs)
	return len(f.uses)+len(f.calls) == 0
}

// start follows the state v from the instruction at vaddr on.
func (f *flow) start(vaddr uint64, v value) {
	f.to(vaddr, v)
	if !f.run(maxFlow>>(2*f.deep), f.step) {
		f.note(f.origin, tooMuch)
	}
}

func (f *flow) note(addr uint64, h how) { f.uses = append(f.uses, use{addr: addr, how: h}) }

func (f *flow) noteOp(i *x86.Instr, h how) {
	f.uses = append(f.uses, use{addr: i.Addr, how: h, op: i.Op})
}

// to continues at vaddr with the state v.
func (f *flow) to(vaddr uint64, v value) {
	if !f.paths && v.held(^other) == 0 && !v.anyStack() {
		return // nothing left to follow
	}
	for n := range v.stack {
		v.stack[n] = max(v.stack[n], other) // its value is not known
	}
	f.add(vaddr, v)
}

// on continues with the state v at all successors of i.
func (f *flow) on(i *x86.Instr, v value) {
	all, known := f.c.next(f.body, i)
	if !known && i.Flow != x86.FlowIndirect {
		f.note(i.Addr, noPads)
	}
	thrown := v
	f.kill(&thrown, x86.CallerSaved)
	for _, to := range all {
		if to != i.Next() && (i.Calls() || i.Flow == x86.FlowNext) {
			f.to(to, thrown)
		} else {
			f.to(to, v)
		}
	}
}

// step moves the state v over the instruction at vaddr.
func (f *flow) step(vaddr uint64, v value) bool {
	i, ok := f.c.at(vaddr)
	if vaddr == f.origin && ok && f.deep == 0 {
		// The load again: it loads the same value.
		f.kill(&v, i.Writes)
		f.load(&v)
		if f.stores {
			v.stack[0] = f.loads
		}
		f.on(&i, v)
		return true
	}
	switch {
	case !ok:
		f.note(vaddr, noInstruction)
		return true
	case !i.Known:
		f.noteOp(&i, noEffects)
		return true
	}
	_, toMemory := i.Mem()
	f.shown = f.shown || (toMemory && i.Op != x86asm.LEA && i.Op != x86asm.NOP || i.Calls() || i.Op == x86asm.SYSCALL || i.IsInt3()) && v.held(plain) != 0
	if f.frame[vaddr].ReturnsElsewhere(&i) {
		if src, _, isReg := i.ArgGPR(1); !isReg || v.reg[src]&^other == 0 { // else the value is its target
			f.note(vaddr, elsewhere)
		}
	}
	switch i.Flow {
	case x86.FlowNext:
		f.transfer(&i, &v)
	case x86.FlowCond:
		if i.Reads.Has(x86.Rcx) && v.reg[x86.Rcx]&plain != 0 { // jrcxz and loop
			f.noteOp(&i, readBy)
		}
		f.kill(&v, i.Partial)
	case x86.FlowJump:
		if _, ok := f.frame[i.Target]; !ok {
			f.afterCall(&i, &v) // a tail call
		}
	case x86.FlowCall, x86.FlowCallInd:
		if f.c.skips(i.Target) {
			f.note(vaddr, elsewhere)
			return true
		}
		f.call(&i, &v)
	case x86.FlowIndirect:
		f.indirect(&i, &v)
		return true
	case x86.FlowRet:
		f.ret(&i, &v)
		return true
	case x86.FlowStop:
		if v.held(plain) != 0 || v.anyStack() { // a signal's handler may use it
			f.note(vaddr, left)
		}
		return true
	}
	f.on(&i, v)
	return true
}

func (f *flow) kill(v *value, s x86.Regs) {
	for r := range v.reg {
		if s.Has(r) {
			v.reg[r] = other
		}
	}
}

// called records a call or jmp through a register or a word of the stack that may have the value; it reports
// whether i is one.
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

// record records a call or jmp to a target with the label l, in register r.
func (f *flow) record(i *x86.Instr, v *value, l label, r int) {
	switch {
	case l&address == 0:
		if l&derived != 0 {
			f.whole = true
			f.note(i.Addr, computed)
		}
		return
	case l&(xored|mangled) != 0:
		f.note(i.Addr, calledMangled)
		return
	}
	f.calls[i.Addr] = i
	if l&other != 0 {
		f.mixed[i.Addr] = true
	}
	f.exact = f.exact || l&exact != 0
	// Only the function's own arguments are passed on; the register that the call goes through is not an argument.
	for n, arg := range [...]int{x86.Rdi, x86.Rsi, x86.Rdx} {
		switch {
		case n >= f.fn.args() || arg == r:
		case v.reg[arg]&(plain&^spent) != 0:
			f.note(i.Addr, passed)
		case v.reg[arg]&half != 0:
			f.note(i.Addr, counted)
		}
	}
}

// args returns the number of arguments of the function.
func (f Function) args() int {
	return [...]int{Gettimeofday: 2, Time: 1, Getcpu: 3}[f]
}

// call moves the state over a call.
func (f *flow) call(i *x86.Instr, v *value) {
	switch {
	case f.page[i.Addr] || f.called(i, v):
		v.reg[x86.Rax] = other // the page changes no other register
		for r := range v.reg {
			if l := v.reg[r]; x86.CallerSaved.Has(r) && l&(exact|chosen) != 0 {
				v.reg[r] = l&^(exact|chosen) | spent
			}
		}
	case i.Flow == x86.FlowCallInd:
		f.operands(i, v)
		regs := x86.CallerSaved
		if f.c.chosen(f.body, i) { // else gcc's -mcmodel=large calls a function so that leaves rax alone
			regs &^= x86.RegsOf(x86.Rax)
		}
		f.passes(i, v, regs)
		v.reg[x86.Rax] = other // the result; a convention may keep all others (clang's preserve_most)
	default:
		f.callee(i, v)
	}
	f.afterCall(i, v)
	if f.page[i.Addr] || f.calls[i.Addr] != nil || !f.c.comesBack(i, calleeDepth) {
		return
	}
	for n, at := range f.words {
		if v.stack[n]&^other != 0 {
			f.given[n] = true
			if i.Flow == x86.FlowCall && f.c.reads(i.Target, at-f.frame[i.Addr].SP+x86.WordSize, calleeDepth) {
				f.note(i.Addr, passed)
			}
		}
	}
}

// maxThunk is the maximum length, in instructions, of a function for which its use of preserved registers is
// determined: calls of gcc's and clang's -mindirect-branch and -mretpoline go through such functions.
const maxThunk = 12

// short reports whether the function at target has at most maxThunk instructions.
func (c *code) short(target uint64) bool {
	w := addresses(target)
	return w.run(maxThunk, func(at uint64, _ struct{}) bool {
		i, ok := c.at(at)
		all, _ := c.next(nil, &i)
		for _, to := range all {
			w.add(to, struct{}{})
		}
		return ok
	})
}

// callee follows the value into the function that i calls. The convention is not enough: gcc's -fipa-ra keeps
// values in registers that a callee in the same unit does not change.
func (f *flow) callee(i *x86.Instr, v *value) {
	into := x86.CallerSaved
	if v.held(^other)&^into != 0 {
		if f.c.short(i.Target) {
			into = ^x86.Regs(0)
		} else if at := f.c.usesKept(keptUse{i.Target, v.held(plain)}); at.Op == x86asm.CMP || at.Op == x86asm.TEST {
			f.note(at.Addr, compared)
		} else if at.Len != 0 {
			f.noteOp(&at, usedBy)
		}
	}
	in := unknownValue()
	for r := range v.reg {
		if into.Has(r) {
			in.reg[r] = v.reg[r]
		}
	}
	if in.held(^other) == 0 {
		return
	}
	if f.deep == calleeDepth {
		f.passes(i, v, into)
		return
	}
	q := question{i.Target, in.reg}
	out, known := f.inner[q]
	if !known {
		self := in // what it leaves if it calls itself
		self.reg[x86.Rax] = other
		f.inner[q] = self
		b := f.c.bodyOf(f.c.fn.at(i.Target))
		g := &flow{found: f.found, worklist: newWorklist(joinValues), c: f.c, fn: f.fn, origin: f.origin, loads: f.loads, body: b,
			frame: f.c.frame(b), page: f.page, deep: f.deep + 1, returned: unknownValue(), inner: f.inner}
		calls := len(f.calls)
		g.saves = in.held(^other) &^ x86.CallerSaved
		g.start(i.Target, in)
		g.settle()
		if out = g.returned; len(f.calls) > calls { // the page may return in its place
			in.reg[x86.Rax] = other
			out = joinValues(out, in)
		}
		f.inner[q] = out
	}
	for r := range v.reg {
		if x86.CallerSaved.Has(r) {
			v.reg[r] = out.reg[r]
		} else {
			v.reg[r] |= out.reg[r] &^ other // moved by a callee with its own convention
		}
	}
}

// keptUse is a function, and the registers that have a value when it is called.
type keptUse struct {
	target uint64
	regs   x86.Regs
}

// maxKept is the maximum number of instructions of one file that are examined for uses of preserved registers by
// callees.
const maxKept = 1 << 16

// usesKept returns an instruction of the function, or of those that it calls, that uses the value of the registers
// before it is overwritten; one without a length if there is none. To save a register, or to call through it, is
// not a use.
func (c *code) usesKept(q keptUse) (use x86.Instr) {
	if use, known := c.kept[q]; known {
		return use
	}
	w := newWorklist(func(old, fresh x86.Regs) x86.Regs { return old | fresh })
	w.add(q.target, q.regs)
	w.run(min(maxFlow, c.keptLeft), func(at uint64, held x86.Regs) bool {
		i, _ := c.at(at)
		if c.keptLeft--; !i.Known || held == 0 {
			return true
		}
		dst, width, _ := i.ArgGPR(0)
		src, srcWidth, _ := i.ArgGPR(1)
		whole := i.Op == x86asm.MOV && srcWidth == 64
		switch {
		case i.Flow == x86.FlowRet && held&^q.regs&^x86.CallerSaved != 0: // moved
			use = i
			return false
		case whole && width == 64:
			if held &^= x86.RegsOf(dst); held.Has(src) {
				held |= x86.RegsOf(dst)
			}
		case whole, i.Op == x86asm.PUSH, i.Flow == x86.FlowCallInd, i.Flow == x86.FlowIndirect:
		case i.Operands&held != 0:
			use = i
			return false
		}
		if !whole {
			held &^= i.Writes | i.Partial
		}
		if i.Flow == x86.FlowCall {
			w.add(i.Target, held)
		}
		if i.Calls() {
			held &^= x86.CallerSaved
		}
		all, _ := c.next(nil, &i)
		for _, to := range all {
			w.add(to, held)
		}
		return true
	})
	c.kept[q] = use
	return use
}

// arguments records that the value is in a register that may be an argument of a callee.
func (f *flow) arguments(i *x86.Instr, v *value) { f.passes(i, v, x86.ArgRegs) }

// passes is arguments for any of the registers.
func (f *flow) passes(i *x86.Instr, v *value, in x86.Regs) {
	if v.held(plain&^spent|xored)&in != 0 {
		f.note(i.Addr, passed)
	}
	if v.held(half)&in != 0 {
		f.note(i.Addr, counted)
	}
}

// operands records that the value is in the address of a memory operand.
func (f *flow) operands(i *x86.Instr, v *value) {
	if i.AddressRegs()&v.held(^other) != 0 {
		f.note(i.Addr, based)
	}
}

// indirect moves the state over a jump through a register or memory.
func (f *flow) indirect(i *x86.Instr, v *value) {
	if f.page[i.Addr] || f.called(i, v) {
		f.leave(i, v)
		return
	}
	f.operands(i, v)
	_, known := f.c.next(f.body, i)
	d := f.frame[i.Addr]
	switch _, fixed := i.MemVaddr(); {
	case !known && f.deep > 0 && v.held(^other)&x86.CallerSaved == 0: // a thunk for another register
		f.returned = joinValues(f.returned, *v)
	case !known:
		f.note(i.Addr, noTarget)
	case fixed: // a PLT entry, or a tail call through a pointer
		f.arguments(i, v)
		f.keeps(i, v)
		f.leave(i, v) // a convention may keep registers
	default: // a table's, or a tail call
		if !d.HasSP || d.SP == 0 {
			f.arguments(i, v)
		}
		f.on(i, *v)
	}
}

// leave records the registers at a jump from the function to code that returns to the caller.
func (f *flow) leave(i *x86.Instr, v *value) {
	if v.reg[x86.Rax] = other; f.deep > 0 {
		f.returned = joinValues(f.returned, *v)
	}
}

// keeps records that the value is in a register that a function must restore.
func (f *flow) keeps(i *x86.Instr, v *value) {
	if f.deep == 0 && v.held(plain)&^x86.CallerSaved != 0 {
		f.note(i.Addr, calleeSaved)
	}
}

// ret ends a path at the return.
func (f *flow) ret(i *x86.Instr, v *value) {
	if f.returnsTo(i, v) {
		f.leave(i, v)
		return
	}
	if d := f.frame[i.Addr]; d.HasSP && d.SP < 0 && v.anyStack() { // the function continues at the pushed address
		f.note(i.Addr, elsewhere)
	}
	if f.deep > 0 {
		f.returned = joinValues(f.returned, *v)
		return
	}
	f.keeps(i, v)
	if v.held(half)&(x86.RegsOf(x86.Rax, x86.Rdx)|^x86.CallerSaved) != 0 {
		f.note(i.Addr, counted)
	}
	switch {
	case v.reg[x86.Rax]&(plain|xored) != 0:
		f.note(i.Addr, returned)
	case v.held(plain)&x86.CallerSaved != 0:
		f.note(i.Addr, left)
	}
}
