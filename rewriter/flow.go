package rewriter

import "fmt"

// Where a value goes: from the instruction that loads the address of a vsyscall function,
// forward along all paths, until every copy of it is called, stored, compared or dead.

// label says what a register may hold; a register has several where paths meet.
type label uint8

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

// plain are the labels of a value that may be used as an address.
const plain = exact | chosen

// value is the state of all registers at one instruction.
type value [numRegs]label

// held returns the registers that may hold one of the labels.
func (v *value) held(l label) regs {
	var s regs
	for r := range v {
		if v[r]&l != 0 {
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
	calls    map[uint64]*instr // calls and jumps through a register
	exact    bool              // one of them without a conditional move on the way
	compares []use
	derefs   []use    // used as the base of a memory operand
	slots    []uint64 // variables it was stored to, unmangled and after a conditional move
	stored   []use    // after PTR_MANGLE
	returns  []use    // in rax, at a ret
	escapes  []use    // everything else
}

// maxFlow bounds the instructions that one value is followed through.
const maxFlow = 20000

// follow follows what reg holds from the instruction at vaddr on. origin is where it was
// loaded, and fn the function of the page whose address it is.
func follow(c *code, origin, vaddr uint64, reg int, fn Function) *flow {
	f := &flow{c: c, fn: fn, origin: origin, state: make(map[uint64]value), calls: make(map[uint64]*instr)}
	var v value
	for r := range v {
		v[r] = other
	}
	v[reg] = exact
	f.to(vaddr, v)
	for n := 0; len(f.work) > 0; n++ {
		if n >= maxFlow {
			f.escape(origin, "too much code to follow")
			break
		}
		at := f.work[len(f.work)-1]
		f.work = f.work[:len(f.work)-1]
		f.step(at, f.state[at])
	}
	return f
}

func (f *flow) escape(addr uint64, format string, a ...any) {
	f.escapes = append(f.escapes, use{addr, fmt.Sprintf(format, a...)})
}

// to joins v into the state at vaddr and queues it where that is news.
func (f *flow) to(vaddr uint64, v value) {
	if v.held(^other) == 0 {
		return // nothing left to follow
	}
	old, seen := f.state[vaddr]
	joined := v
	for r := range joined {
		joined[r] |= old[r]
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
		// Back at the load: its register gets the same value again.
		if i, ok := f.c.at(vaddr); ok {
			f.kill(&v, i.writes)
			f.to(i.next(), v)
		}
		return
	}
	i, ok := f.c.at(vaddr)
	switch {
	case !ok:
		f.escape(vaddr, "reaches bytes that are no known instruction")
		return
	case !i.known:
		f.escape(vaddr, "reaches the instruction %s, whose effects are not known", i.Op)
		return
	}
	switch i.flow {
	case flowNext:
		f.transfer(&i, &v)
		f.to(i.next(), v)
	case flowCond:
		f.conditionReads(&i, &v)
		f.to(i.target, v)
		f.to(i.next(), v)
	case flowJump:
		f.to(i.target, v)
	case flowCall, flowCallInd:
		f.call(&i, &v)
		if !f.c.starts.has(i.next()) { // else the callee does not return
			f.to(i.next(), v)
		}
	case flowIndirect:
		f.indirect(&i, &v)
	case flowRet:
		f.ret(&i, &v)
	case flowStop:
	}
}

func (f *flow) kill(v *value, s regs) {
	for r := range v {
		if s.has(r) {
			v[r] = other
		}
	}
}

// conditionReads catches jrcxz and loop, which read rcx.
func (f *flow) conditionReads(i *instr, v *value) {
	if i.reads.has(rcx) && v[rcx]&plain != 0 {
		f.escape(i.addr, "read by %s", i.Op)
	}
	f.kill(v, i.partial)
}

// through returns the register that a call or jmp goes through.
func (i *instr) through() (r int, ok bool) {
	r, width, ok := i.argGPR(0)
	return r, ok && width == 64
}

// called records a call or jmp through a register that may hold the value; it reports
// whether this is one.
func (f *flow) called(i *instr, v *value) bool {
	r, ok := i.through()
	if !ok || v[r]&^other == 0 {
		return false
	}
	if v[r]&(xored|mangled) != 0 {
		f.escape(i.addr, "called while mangled")
		return true
	}
	f.calls[i.addr] = i
	f.exact = f.exact || v[r]&exact != 0
	// Only the function's own arguments are passed on; the register called through is none
	// beyond them.
	for n, arg := range [...]int{rdi, rsi, rdx} {
		if n < f.fn.args() && arg != r && v[arg]&plain != 0 {
			f.escape(i.addr, "passed as an argument")
		}
	}
	return true
}

// args is how many arguments the function has.
func (f Function) args() int {
	return [...]int{Gettimeofday: 2, Time: 1, Getcpu: 3}[f]
}

// call moves the state over a call.
func (f *flow) call(i *instr, v *value) {
	if f.called(i, v) {
		f.kill(v, callerSaved)
		return
	}
	f.operands(i, v)
	if i.flow == flowCallInd {
		f.arguments(i, v)
		f.kill(v, callerSaved)
		return
	}
	for r := range v {
		if v[r]&^other == 0 {
			continue
		}
		// gcc's -fipa-ra keeps values in registers that a callee in the same unit is known
		// to leave alone: look into the callee rather than trust the convention.
		reads, survives := f.c.callee(i.target, r, calleeDepth)
		if reads && v[r]&(plain|xored) != 0 {
			f.escape(i.addr, "passed as an argument")
		}
		if callerSaved.has(r) && !survives {
			v[r] = other
		}
	}
}

// arguments records the value in a register that may be an argument of a callee.
func (f *flow) arguments(i *instr, v *value) {
	if v.held(plain|xored)&argRegs != 0 {
		f.escape(i.addr, "passed as an argument")
	}
}

// operands records the value in the address of a memory operand.
func (f *flow) operands(i *instr, v *value) {
	if i.addressRegs()&v.held(^other) != 0 {
		f.derefs = append(f.derefs, use{i.addr, "used as a memory address"})
	}
}

// indirect ends a path at a jump through a register or memory.
func (f *flow) indirect(i *instr, v *value) {
	if f.called(i, v) {
		return
	}
	f.operands(i, v)
	if _, fixed := i.memVaddr(); fixed { // a PLT entry, or a tail call through a pointer
		f.arguments(i, v)
		f.kept(i, v)
		return
	}
	f.escape(i.addr, "reaches an indirect jump")
}

// kept records the value in a register that a function must restore.
func (f *flow) kept(i *instr, v *value) {
	if v.held(plain)&^callerSaved != 0 {
		f.escape(i.addr, "left in a callee-saved register")
	}
}

// ret ends a path at the return.
func (f *flow) ret(i *instr, v *value) {
	f.kept(i, v)
	switch {
	case v[rax]&(plain|xored) != 0:
		f.returns = append(f.returns, use{i.addr, "returned"})
	case v[rdx]&plain != 0:
		f.escape(i.addr, "left in rdx, the second half of a return value")
	}
}
