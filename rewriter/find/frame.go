// The stack frame of a function: the values of rsp and a frame pointer in rbp at each instruction, which identify
// a word of the stack however it is addressed.

package find

import (
	"maps"
	"slices"

	"golang.org/x/arch/x86/x86asm"

	"vfix.dev/vfix/rewriter/x86"
)

// frame is the depth at each instruction of a body; nil if paths differ in rsp.
type frame map[uint64]x86.Depth

// frame returns the frame of b's function, computed once; nil if it is not known.
func (c *code) frame(b *body) frame {
	switch {
	case b == nil || b.damaged != "":
		return nil
	case b.framed:
		return b.frame
	}
	b.framed = true
	sound := true
	w := newWorklist(func(old, fresh x86.Depth) x86.Depth {
		sound = sound && old.HasSP == fresh.HasSP && old.SP == fresh.SP && !(old.HasBP && fresh.HasBP && old.BP != fresh.BP)
		old.HasBP = old.HasBP && fresh.HasBP
		return old
	})
	w.add(b.Start, x86.Depth{HasSP: true})
	if w.run(4*maxBody, func(at uint64, d x86.Depth) bool {
		i, _ := c.at(at)
		d.Over(&i)
		all, _ := c.next(b, &i)
		for _, to := range all {
			if b.lens[to] != 0 {
				w.add(to, d)
			}
		}
		return sound
	}) {
		b.frame = w.state
	}
	return b.frame
}

// maxSlots is the maximum number of words of the stack through which one value is followed.
const maxSlots = 6

// slot returns the index of the word at off, a new one with make; -1 for none.
func (f *flow) slot(off int64, make bool) int {
	for n, at := range f.words {
		if at == off {
			return n
		}
	}
	if !make {
		return -1
	}
	if len(f.words) == maxSlots {
		f.note(f.origin, tooManyPlaces)
		return -1
	}
	f.words = append(f.words, off)
	return len(f.words) - 1
}

// touches reports whether a tracked word that may have the value overlaps the n bytes at p.
func (f *flow) touches(v *value, p x86.Place, n int64) bool {
	for s, at := range f.words {
		size := int64(x86.WordSize)
		if v.stack[s]&address == 0 {
			size = halfSize
		}
		if v.stack[s]&^other != 0 && (!p.Exact || at < p.Off+n && p.Off < at+size) {
			return true
		}
	}
	return false
}

// put stores the label l into the word at off.
func (f *flow) put(v *value, off int64, l label) {
	if f.deep > 0 && l&spent != 0 { // as functions with any number of arguments save all registers
		l = l&^spent | other
	}
	if off > 0 && l&^other != 0 { // 0: the return address
		f.note(f.origin, callersFrame)
		return
	}
	if n := f.slot(off, l&^other != 0); n >= 0 {
		v.stack[n] = l
		f.onStack = f.onStack || l&^other != 0
	}
}

// onFrame moves the state over an instruction that reads or writes the stack; it reports whether the instruction
// does nothing else.
func (f *flow) onFrame(i *x86.Instr, v *value) bool {
	d := f.frame[i.Addr]
	if !d.HasSP {
		if v.anyStack() {
			f.note(i.Addr, noFrame)
			v.stack = [maxSlots]label{}
		}
		return false
	}
	dst, width, isReg := i.ArgGPR(0)
	src, srcWidth, _ := i.ArgGPR(1)
	p := d.Place(i)
	switch {
	case i.Op == x86asm.PUSH && isReg:
		f.put(v, d.SP-x86.WordSize, v.reg[dst])
		if n := f.slot(d.SP-x86.WordSize, false); n >= 0 && f.saves.Has(dst) {
			f.taken[n] = true
		}
		return true
	case i.Op == x86asm.PUSH || i.Op == x86asm.PUSHFQ:
		if p.Stack && f.touches(v, p, x86.WordSize) {
			f.note(i.Addr, pushed)
		}
		f.put(v, d.SP-x86.WordSize, other)
		return false
	case i.Op == x86asm.POP && isReg:
		v.reg[dst] = f.take(v, d.SP, !x86.CallerSaved.Has(dst)) // into another one, gcc drops an argument
		return true
	case i.Op == x86asm.LEAVE && f.touches(v, x86.Place{Off: d.BP, Stack: true, Exact: d.HasBP}, x86.WordSize):
		f.noteOp(i, usedBy)
		return false
	case !p.Stack || i.Op == x86asm.LEA:
		return false
	case f.halfOnFrame(i, v, p):
		return true
	}
	if p.Exact && i.Op == x86asm.MOV && width == 64 {
		if n := f.slot(p.Off, false); n >= 0 {
			v.reg[dst], f.taken[n] = v.stack[n], true
			return true
		}
	}
	if i.Op == x86asm.MOV && isReg && f.inArray(i, p) {
		v.reg[dst] = f.element(v)
		return true
	}
	if p.Exact && i.Op == x86asm.MOV && !isReg && i.MemBytes == x86.WordSize {
		if srcWidth == 64 {
			l := v.reg[src]
			if f.overlaps(v, p.Off) {
				f.note(i.Addr, overwritten)
			}
			f.put(v, p.Off, l)
			return true
		}
		if !f.overlaps(v, p.Off) {
			f.put(v, p.Off, other)
			return true
		}
	}
	if _, toMem := i.Args[0].(x86asm.Mem); toMem && p.Exact && i.HasVector() {
		for n, at := range f.words { // all of it overwritten
			if at >= p.Off && at+x86.WordSize <= p.Off+int64(i.MemBytes) {
				v.stack[n] = other
			}
		}
	}
	if f.touches(v, p, int64(max(i.MemBytes, 1))) {
		if i.Op == x86asm.CMP || i.Op == x86asm.TEST {
			f.note(i.Addr, compared)
		} else {
			f.copied = f.copied || i.HasVector() && !f.has(firstEscape)
			f.noteOp(i, usedInMemory)
		}
	}
	return false
}

// inArray reports whether i reads or calls an element of an array on the stack in which the words lie as elements do.
func (f *flow) inArray(i *x86.Instr, p x86.Place) bool {
	m, _ := i.Mem()
	return !p.Exact && m.Scale == x86.WordSize && i.MemBytes == x86.WordSize && m.Index != x86asm.RBP &&
		!slices.ContainsFunc(f.words, func(at int64) bool { return (at-p.Off)%x86.WordSize != 0 })
}

// element returns the label of any of the words: an element of an array.
func (f *flow) element(v *value) label {
	l := other
	for n := range f.words {
		l |= v.stack[n]
		f.taken[n] = f.taken[n] || v.stack[n]&^other != 0
	}
	return l
}

// overlaps reports whether a tracked word that may have the value overlaps the word at off.
func (f *flow) overlaps(v *value, off int64) bool {
	for s, at := range f.words {
		if v.stack[s]&^other != 0 && at != off && at < off+x86.WordSize && off < at+x86.WordSize {
			return true
		}
	}
	return false
}

// take returns the label of the word at off, which stays below the stack; read reports that its value is used.
func (f *flow) take(v *value, off int64, read bool) label {
	n := f.slot(off, false)
	if n < 0 {
		return other
	}
	f.taken[n] = f.taken[n] || read
	return v.stack[n]
}

func (v *value) anyStack() bool {
	for _, l := range v.stack {
		if l&^other != 0 {
			return true
		}
	}
	return false
}

// calledSlot records a call or jmp through a tracked word of the stack.
func (f *flow) calledSlot(i *x86.Instr, v *value) bool {
	d := f.frame[i.Addr]
	if !d.HasSP {
		return false
	}
	p := d.Place(i)
	if !p.Stack || !f.touches(v, p, x86.WordSize) {
		return false
	}
	n := f.slot(p.Off, false)
	switch {
	case f.inArray(i, p):
		f.record(i, v, f.element(v), x86.NumRegs)
		return true
	case !p.Exact || n < 0:
		f.note(i.Addr, throughArray)
		return true
	}
	if v.stack[n]&address == 0 { // with what is beside it
		v.stack[n] |= derived
	}
	f.taken[n] = true
	f.record(i, v, v.stack[n], x86.NumRegs)
	return true
}

// returnsTo records a ret to a tracked word: push and ret, which is a jump.
func (f *flow) returnsTo(i *x86.Instr, v *value) bool {
	d := f.frame[i.Addr]
	if !d.HasSP {
		return false
	}
	n := f.slot(d.SP, false)
	if n < 0 || v.stack[n]&^other == 0 {
		return false
	}
	f.taken[n] = true
	f.record(i, v, v.stack[n], x86.NumRegs)
	return true
}

// afterCall drops the words below the stack pointer, which are the callee's. In an unknown frame these may be any.
func (f *flow) afterCall(i *x86.Instr, v *value) {
	d := f.frame[i.Addr]
	if !d.HasSP && v.anyStack() {
		f.note(i.Addr, noFrame)
	}
	for n, at := range f.words {
		if !d.HasSP || at < d.SP {
			v.stack[n] &= other
		}
	}
}

// reads reports whether the function at target, or one that it jumps to, addresses the word at off, which is in
// its caller's frame, or pops it.
func (c *code) reads(target uint64, off int64, deep int) bool {
	b := c.bodyOf(c.fn.at(target))
	for at, d := range c.frame(b) {
		i, _ := c.at(at)
		p := d.Place(&i)
		switch {
		case i.Op == x86asm.LEA:
			continue
		case i.Op == x86asm.POP && d.HasSP && d.SP == off:
			return true
		case p.Exact && p.Off < off+x86.WordSize && off < p.Off+int64(max(i.MemBytes, 1)):
			return true
		}
		away := i.Target != 0 && i.Flow != x86.FlowCall && b.lens[i.Target] == 0
		if away && deep > 0 && d.HasSP && c.reads(i.Target, off-d.SP, deep-1) {
			return true
		}
	}
	return false
}

// settle records, at the end, uses of the words of the stack that had the value. A word that has it at a call, and
// that the function itself never reads, is an argument of the callee.
func (f *flow) settle() {
	if !f.onStack || f.has(firstEscape) {
		return
	}
	own := make(map[uint64]bool)
	for at := range f.calls {
		own[at] = !f.mixed[at]
	}
	why := f.exposed(f.words, own)
	if why != "" && f.deep == 0 {
		f.c.findPageCalls(f.body)
		for _, at := range f.body.pageCalls {
			own[at] = true
		}
		why = f.exposed(slices.Concat(f.words, f.body.pageWords), own)
	}
	for n := range f.words {
		if f.given[n] && !f.taken[n] {
			why = "passed to a function there"
		}
	}
	if why != "" {
		f.uses = append(f.uses, use{addr: f.origin, how: onStackSeen, why: why})
	}
}

// exposed returns how other code may get the address of one of the words, "" if it cannot: reads through a pointer
// are not visible. Every use of an address exposes it, except as an argument of a call of the page, which reads no
// argument's memory.
func (f *flow) exposed(words []int64, page map[uint64]bool) string {
	top := slices.Max(words)
	for _, at := range slices.Sorted(maps.Keys(f.body.lens)) { // sorted: a report names the first reason
		i, _ := f.c.at(at)
		d := f.frame[at]
		if !d.HasSP {
			return "the stack's depth is not known everywhere"
		}
		if i.Calls() && f.c.returnsTwice(&i) {
			return "a function that returns twice is called"
		}
		if p := d.Place(&i); p.Stack && !p.Exact && i.Op != x86asm.NOP {
			_, _, toReg := i.ArgGPR(0)
			read := (i.Op == x86asm.MOV && toReg || i.Calls() || i.Flow == x86.FlowIndirect) && f.inArray(&i, p)
			if !read && (i.Op != x86asm.LEA || !f.harmless(&i, page)) {
				return "an array may lie over it"
			}
			continue
		}
		v, taken := d.Address(&i)
		if taken && v <= top && !f.harmless(&i, page) {
			return "the address of the stack is taken"
		}
	}
	return ""
}

// harmless reports whether the address that i computes is only passed to the page, which page calls.
func (f *flow) harmless(i *x86.Instr, page map[uint64]bool) bool {
	dst, width, _ := i.ArgGPR(0)
	if width != 64 || i.Op != x86asm.LEA && i.Op != x86asm.MOV {
		return false
	}
	g := newFlow(f.c, i.Addr, f.fn, nil)
	g.body, g.page = f.body, page
	g.from(i.Next(), exact, x86.RegsOf(dst))
	return len(g.calls) == 0 && !slices.ContainsFunc(g.uses, func(u use) bool { return u.how != compared && u.how != left })
}
