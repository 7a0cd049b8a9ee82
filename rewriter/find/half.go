// Addresses made from 32 bits: mov $0xff600400,%eax; cdqe. The lower half of gettimeofday's address may be any
// number, such as -10 MiB or a color; it is a reference to the page if the code extends it to 64 bits with an
// upper half of ones, or computes with it and calls the result. The lower half of another function's address is a
// reference in any instruction.

package find

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"slices"

	"golang.org/x/arch/x86/x86asm"

	"vfix.dev/vfix/rewriter/elf"
	"vfix.dev/vfix/rewriter/x86"
)

// The labels of a value that is not yet an address, or no longer one that a function gets.
const (
	half    label = 1 << (5 + iota) // a register with the lower half of the address
	derived                         // computed from it or with it: perhaps the address
	table                           // the address of data with half an address in it, or one near it
	tables                          // the address of data with pointers to such data
	// spent is the address in a register that a call of the page may change by the C convention: code that goes on
	// using it is followed, but no compiler passes it to a function.
	spent

	// address are the labels of a value that is the address, or was.
	address = ^(other | half | derived | table | tables)
)

// halfSize is the size of a word of the stack with the lower half, in bytes.
const halfSize = 4

// arithmetic are the instructions that compute an address from a constant and another value.
var arithmetic = map[x86asm.Op]bool{x86asm.ADD: true, x86asm.ADC: true, x86asm.SUB: true, x86asm.SBB: true, x86asm.OR: true,
	x86asm.XOR: true, x86asm.AND: true, x86asm.IMUL: true}

// movabsLen is the length in bytes of a mov of a constant of 64 bits, which begins behind the first two.
const movabsLen = 10

// partial adds the instructions whose last four bytes, or four of whose constant of 64 bits, are those at b[imm], if
// they may be a part of the address, or of its negative or complement; it reports whether there are such. The code
// around them decides later.
func (s *search) partial(b []byte, vaddr uint64, imm int, f Function) (found bool) {
	want := int32(binary.LittleEndian.Uint32(b[imm:]))
	for n := 1; n <= min(imm, x86.MaxLen-4); n++ {
		i, ok := x86.Decode(b[imm-n:], vaddr+uint64(imm-n))
		if !ok || i.Len < n+4 || i.Len != n+4 && i.Len != movabsLen {
			continue
		}
		if kind, ok := halfKind(&i, want, n); ok {
			found = true
			if at, fixed := i.MemVaddr(); fixed && i.Op == x86asm.MOV {
				s.keep(at, word{f, half, false})
			}
			if opposite(x86asm.Imm(want)) && i.Op == x86asm.MOV {
				if _, ok := s.code.turned(&i); !ok {
					continue
				}
			}
			if off, ok := s.f.Offset(i.Addr, uint64(i.Len)); ok && !s.full() {
				s.halves = append(s.halves, Site{Vaddr: i.Addr, Offset: off, Len: uint8(i.Len), Kind: kind, Function: f, stored: s.code.stored(&i, b[imm-n:], n)})
			}
		}
	}
	return found
}

// halfKind returns the kind of an instruction with a constant of 32 bits in its bytes from n on.
func halfKind(i *x86.Instr, want int32, n int) (Kind, bool) {
	_, width, isReg := i.ArgGPR(0)
	if n -= movabsLen - 8; i.Op != x86asm.MOV || !isReg || i.Len != movabsLen {
		n = 0
	}
	if m, _ := i.Mem(); i.Op == x86asm.LEA {
		switch {
		case int32(m.Disp) != want || m.Base == x86asm.RIP || want > 0:
			return 0, false
		case m.Base == 0 && m.Index == 0:
			return HalfImm32, true
		}
		return ArithImm32, true
	}
	for k, arg := range i.Args {
		c, ok := arg.(x86asm.Imm)
		switch c >>= 8 * n; {
		case !ok || int32(c) != want || k == 0:
		case opposite(c):
			return ArithImm32, width >= 32 && i.Op == x86asm.MOV || (i.Op == x86asm.SUB || i.Op == x86asm.XOR) && (width >= 32 || i.MemBytes >= halfSize)
		case i.Op == x86asm.MOV && (width == 32 || i.MemBytes == halfSize):
			return HalfImm32, true
		case i.Op == x86asm.MOV && isReg || arithmetic[i.Op] && (width >= 32 || i.MemBytes >= halfSize):
			return ArithImm32, true
		}
	}
	return 0, false
}

// opposite reports whether a constant is positive: not half an address, but one whose negative is.
func opposite(c x86asm.Imm) bool { return int32(c) > 0 }

// turned returns the instruction shortly after i that changes the sign of the value that i loads, or complements
// it.
func (c *code) turned(i *x86.Instr) (x86.Instr, bool) {
	const most = 6 // instructions
	reg, _, _ := i.ArgGPR(0)
	for next := range c.straight(i.Next(), most) {
		if dst, _, _ := next.ArgGPR(0); next.Flow != x86.FlowNext {
			break
		} else if dst == reg && (next.Op == x86asm.NEG || next.Op == x86asm.NOT) {
			return *next, true
		}
	}
	return x86.Instr{}, false
}

// stored returns why half an address, in the bytes b of i from n on, becomes one without code that makes it whole; "" if
// it does not.
func (c *code) stored(i *x86.Instr, b []byte, n int) string {
	rest := b[n+halfSize : max(i.Len, n+halfSize)]
	switch {
	case c.paired(i):
		return "stored beside its upper half"
	case len(rest) > 0 && n >= 4 && b[n-2]&0xf8 == 0x48 && b[n-1]&0xf8 == 0xb8 && len(bytes.TrimLeft(rest, "\xff")) == 0:
		return "machine code in a constant, which a program may execute"
	}
	return ""
}

// paired reports whether the instruction beside i, which stores a half, stores the upper half, all ones, in the
// next four bytes, or pushes it there.
func (c *code) paired(i *x86.Instr) bool {
	m, toMemory := i.Args[0].(x86asm.Mem)
	if !toMemory || i.Op != x86asm.MOV {
		return false
	}
	at, fixed := i.MemVaddr()
	upper := func(p x86.Instr) bool {
		if p.Op == x86asm.PUSH {
			return p.Args[0] == x86asm.Imm(-1) && m.Base == x86asm.RSP && m.Disp == 0
		}
		to, _ := p.Args[0].(x86asm.Mem)
		v, _ := p.MemVaddr()
		same := v == at+halfSize || !fixed && to.Base == m.Base && to.Index == m.Index && to.Disp == m.Disp+halfSize
		ones, _ := p.Args[1].(x86asm.Imm)
		return same && (p.Op == x86asm.MOV || p.Op == x86asm.OR) && p.MemBytes >= halfSize && int32(ones) == -1
	}
	if p, _ := c.at(i.Next()); upper(p) {
		return true
	}
	for n := uint64(1); n <= x86.MaxLen; n++ {
		if p, _ := c.at(i.Addr - n); uint64(p.Len) == n && upper(p) {
			return true
		}
	}
	return false
}

// judgeHalf follows the value that the instruction at s loads; it reports whether it becomes an address.
func judgeHalf(c *code, b *body, s *Site) bool {
	i, ok := c.at(s.Vaddr)
	if !ok || b == nil && c.within(s.Vaddr) {
		return false
	}
	if s.stored != "" {
		s.Verdict, s.Reason = Unknown, s.stored
		return true
	}
	l := half
	c1, _ := i.Args[1].(x86asm.Imm)
	switch {
	case s.Kind == ArithImm32 && i.Op == x86asm.MOV && opposite(c1):
		if i, ok = c.turned(&i); !ok {
			return false
		}
		l = derived
	case s.Kind == ArithImm32 && i.Op != x86asm.MOV:
		l = derived
	case s.Kind == HalfLoad:
		l = s.loads
	}
	f := newFlow(c, s.Vaddr, s.Function, b)
	dst, _, isReg := i.ArgGPR(0)
	d := f.frame[s.Vaddr]
	switch p := d.Place(&i); {
	case i.Op == x86asm.MOVSXD:
		f.from(i.Next(), f.extend(l), x86.RegsOf(dst))
	case isReg:
		f.from(i.Next(), l, x86.RegsOf(dst))
	case d.HasSP && p.Exact && p.Off < 0:
		f.stored(&i, l, p.Off)
	default:
		return false
	}
	if l == derived && b == nil && (f.has(noInstruction) || f.has(noEffects)) {
		return false // these bytes are not code
	}
	if !f.whole || s.Kind == HalfLoad && len(f.calls) == 0 {
		return false
	}
	f.conclude(s)
	switch {
	case s.Verdict != Unknown && f.has(counted):
		u, _ := f.first(counted)
		s.Verdict, s.Reason = Unknown, fmt.Sprintf("%v at %#x", u, u.addr)
	case s.Verdict.Patchable() && s.Kind == ArithImm32:
		s.Verdict, s.Reason = Unknown, "computed from a part of a longer constant"
	case s.Verdict.Patchable() && s.Kind == HalfLoad:
		s.Verdict, s.Reason = Unknown, "half the address is in data"
	}
	return true
}

// widen moves the state over an instruction on half an address; it reports whether the instruction does nothing
// else.
func (f *flow) widen(i *x86.Instr, v *value) bool {
	dst, width, _ := i.ArgGPR(0)
	src, srcWidth, _ := i.ArgGPR(1)
	if i.Op == x86asm.CDQE {
		dst, width, src, srcWidth = x86.Rax, 64, x86.Rax, 32
	}
	if srcWidth != 32 || v.reg[src]&address != 0 {
		return false
	}
	switch {
	case (i.Op == x86asm.CDQE || i.Op == x86asm.MOVSXD) && width == 64:
		v.reg[dst] = f.extend(v.reg[src])
	case i.Op == x86asm.MOV && width == 32:
		v.reg[dst] = v.reg[src]
	default:
		return false
	}
	return true
}

// extend returns the label after the sign extension of a value with the label l.
func (f *flow) extend(l label) label {
	if l&half != 0 {
		f.whole = true
		l = l&^half | exact
	}
	return l
}

// compute moves the state over an instruction without its own rule: if it reads half an address, its result may be
// an address.
func (f *flow) compute(i *x86.Instr, v *value) {
	read := i.Operands | i.Partial
	if read&v.held(half) != 0 {
		f.note(i.Addr, counted)
	}
	l := other
	if read&v.held(half|derived) != 0 {
		l |= derived
	}
	for _, t := range [...]label{table, tables} {
		if read&v.held(t) != 0 {
			l |= t
		}
	}
	f.kill(v, i.Writes|i.Partial)
	if dst, width, _ := i.ArgGPR(0); width >= 32 && i.Writes.Has(dst) {
		v.reg[dst] |= l
	}
}

// fromTable moves the state over an instruction that loads half an address from a table of them; it reports
// whether i is one.
func (f *flow) fromTable(i *x86.Instr, v *value) bool {
	dst, width, isReg := i.ArgGPR(0)
	of := i.AddressRegs() & v.held(table)
	switch {
	case !isReg:
		return false
	case of != 0 && i.Op == x86asm.MOVSXD && i.MemBytes == halfSize:
		v.reg[dst] = f.extend(half)
	case of != 0 && i.Op == x86asm.MOV && width == 32:
		v.reg[dst] = half
	case i.AddressRegs()&v.held(tables) != 0 && i.Op == x86asm.MOV && width == 64:
		v.reg[dst] = other | table
	default:
		return false
	}
	return true
}

// halfOnFrame moves the state over an instruction that moves half an address from or to the stack; it reports
// whether i is one.
func (f *flow) halfOnFrame(i *x86.Instr, v *value, p x86.Place) bool {
	if !p.Exact || i.Op != x86asm.MOV && i.Op != x86asm.MOVSXD {
		return false
	}
	dst, width, isReg := i.ArgGPR(0)
	src, srcWidth, _ := i.ArgGPR(1)
	n := f.slot(p.Off, false)
	holds := n >= 0 && v.stack[n]&address == 0 && v.stack[n]&(half|derived) != 0
	switch {
	case holds && width == 64 && i.Op == x86asm.MOVSXD:
		v.reg[dst], f.taken[n] = f.extend(v.stack[n]), true
	case holds && width == 32 && i.Op == x86asm.MOV:
		v.reg[dst], f.taken[n] = v.stack[n], true
	case holds && width == 64 && i.Op == x86asm.MOV: // with the bytes beside it
		v.reg[dst], f.taken[n] = other|derived, true
	case isReg || i.MemBytes != halfSize:
		return false
	case srcWidth == 32 && v.reg[src]&address == 0 && v.reg[src]&(half|derived) != 0:
		if n = f.slot(p.Off, true); n >= 0 {
			v.stack[n], f.onStack = v.reg[src], true
		}
	case holds:
		v.stack[n] = other
	default:
		return false
	}
	return true
}

// word is a word of data that is, or becomes, the lower half of an address (half), or that is a pointer to a table of
// such (table). constant reports that it may be a part of an instruction.
type word struct {
	Function
	label
	constant bool
}

func (s *search) keep(vaddr uint64, w word) {
	if s.words == nil {
		s.words = make(map[uint64]word)
	}
	if !s.full() {
		s.words[vaddr] = w
	}
}

// pointers records the pointers to tables with one of the words: those that the loader sets, as in a global offset
// table, and those in the file.
func (s *search) pointers() {
	halves := slices.DeleteFunc(slices.Sorted(maps.Keys(s.words)), func(v uint64) bool { return s.words[v].constant || s.words[v].label != half })
	if len(halves) == s.pointed {
		return
	}
	s.pointed = len(halves)
	first, last := halves[0]-min(tableSpan, halves[0]), halves[len(halves)-1]
	add := func(at, to uint64) {
		if to < first || to > last {
			return
		}
		n, _ := slices.BinarySearch(halves, to)
		if w := halves[n]; w-to <= tableSpan {
			s.keep(at, word{s.words[w].Function, table, false})
		}
	}
	s.f.EachPointer(add)
	s.f.EachChunk(0, elf.PFX, func(_ *elf.Prog, b []byte, vaddr uint64, lo, hi int) {
		for i, to := range wordsIn(b, lo+int(-(vaddr+uint64(lo))%x86.WordSize), hi, first, last) {
			add(vaddr+uint64(i), to)
		}
	})
}

const (
	// maxHalves is how many entries of a table of halves are examined.
	maxHalves = 1 << 10
	// maxSpans is the number of spans up to which code is searched for displacements to each; for more, each
	// instruction that may load a word is examined.
	maxSpans = 16
)

// loads searches for instructions that load one of the words, which may be half an address and are in ascending
// order: movslq, or a mov of 32 bits whose sign is extended later.
func (s *search) loads(b []byte, vaddr uint64, lo, hi int, words []uint64) {
	var to []span
	for _, w := range words {
		if t, n := (span{w - min(w, tableSpan), w}), len(to)-1; n >= 0 && t.first <= to[n].last {
			to[n].last = w
		} else {
			to = append(to, t)
		}
	}
	if len(to) > maxSpans {
		for op := lo; op < hi; op++ {
			s.load(b, vaddr, op, words)
		}
		return
	}
	var absolute []uint16 // addresses of the words
	for _, t := range to {
		if s.f.Type == elf.TypeExec && t.last <= math.MaxUint32 { // otherwise instructions cannot have its address
			absolute = appendUpper(absolute, t, 0, 0)
		}
	}
	eachUpper(b, vaddr, lo, hi, absolute, to, func(i int) {
		for behind := 3; behind <= 5; behind++ { // without ModRM, with it, and with a SIB byte
			s.load(b, vaddr, i-behind, words)
		}
	})
}

// tableSpan is the distance from the start of a table to its last entry, in bytes.
const tableSpan = (maxHalves - 1) * halfSize

// load records the instruction with the opcode b[i], if it loads one of the words, which are in ascending order,
// or the address of a table with one in it.
func (s *search) load(b []byte, vaddr uint64, i int, words []uint64) {
	const opMov, opMovslq, opLea, opMovReg, opMovImm = 0x8b, 0x63, 0x8d, 0xb8, 0xc7
	if i < 1 || i+6 >= len(b) || s.full() {
		return
	}
	op, modrm, at, span, loads := b[i], b[i+1], uint64(0), uint64(0), half
	absolute := func(n int) uint64 { return uint64(binary.LittleEndian.Uint32(b[i+n:])) }
	fixed, load := s.f.Type == elf.TypeExec, op == opMov || op == opMovslq
	if op == opMov && b[i-1]&0xf8 == 0x48 {
		loads = table
	}
	switch {
	case (load || op == opLea) && modrm&0xc7 == 5: // rip
		if at = vaddr + uint64(i) + 6 + elf.Signed(b[i+2:]); !load {
			span = tableSpan
		}
	case fixed && op&0xf8 == opMovReg:
		at, span = absolute(1), tableSpan
	case fixed && op == opMovImm && modrm&0xf8 == 0xc0:
		at, span = absolute(2), tableSpan
	case !fixed || !load || modrm&0xc7 != 4:
		return
	case b[i+2] == 0x25: // no register
		at = elf.Signed(b[i+3:])
	case b[i+2]&7 == 5: // table(,%reg,scale)
		at, span = absolute(3), tableSpan
	default:
		return
	}
	var f Function
	is := label(0) // what it loads
	for n, _ := slices.BinarySearch(words, at); n < len(words) && words[n]-at <= span; n++ {
		w, fits := s.words[words[n]], true
		l := w.label
		switch {
		case load:
			fits = l == loads && (words[n]-at)%halfSize == 0
		case l == table:
			l, fits = tables, words[n] == at
		default: // of any number, only an aligned one; half of another address may be in a packed structure
			l, fits = table, (words[n]%halfSize == 0 || w.Function != Gettimeofday) && (!w.constant || op == opLea)
		}
		if fits && is == 0 {
			f = w.Function
		}
		if fits {
			is |= l
		}
	}
	if is == 0 {
		return
	}
	start := i
	if b[i-1]&0xf0 == 0x40 { // REX
		start--
	}
	in, ok := x86.Decode(b[start:], vaddr+uint64(start))
	if off, known := s.f.Offset(in.Addr, uint64(in.Len)); ok && known {
		s.halves = append(s.halves, Site{Vaddr: in.Addr, Offset: off, Len: uint8(in.Len), Kind: HalfLoad, Function: f, loads: is})
	}
}

// tablesShare is the part of a file's entries of tables that are read for the halves of one function: one with many tables
// takes all that it gets.
const tablesShare = 8

// addWholes adds the halves whose constants become an address. Of a function with too many tables it adds those that
// cannot be numbers; once the work for the file is done, it adds all.
func (s *search) addWholes() {
	if len(s.halves) == 0 {
		return
	}
	loads := map[uint64]label{}
	for _, h := range s.halves {
		loads[h.Vaddr] |= h.loads
	}
	halves := distinct(s.halves) // loads of two words, examined once
	fn := findFunctions(s.f, halves)
	left := &cmp.Or(s.f.budget, newBudget()).halves
	much := map[uint64]bool{} // functions with too many tables, by their starts
	var c *code
	for _, h := range halves {
		if c == nil || c.exhausted() { // what it knows then is not all
			c = newCode(s.f, nil)
			c.use(fn)
		}
		start := h.Vaddr
		if d, ok := fn.around(h.Vaddr); ok {
			start = d.Start
		}
		entries := min(left.entries, maxEntries/tablesShare)
		if much[start] {
			entries = -1
		}
		c.work = &work{left.steps, entries}
		h.loads = loads[h.Vaddr]
		i, _ := x86.Decode(c.bytes(h.Vaddr), h.Vaddr)
		b := c.holder(h.Vaddr)
		number := h.Function == Gettimeofday && !(i.Op == x86asm.OR && i.DataSize == 64) || h.Kind == HalfLoad
		whole := judgeHalf(c, b, &h)
		left.steps, left.entries = c.steps, left.entries-(entries-c.entries)
		much[start] = c.entries < 0
		if whole || left.exhausted() || !number && (c.exhausted() || b != nil && b.begins(h.Vaddr, uint64(h.Len))) {
			s.sites = append(s.sites, h)
		}
	}
}
