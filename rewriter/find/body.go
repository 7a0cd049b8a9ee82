// The instructions of one function: those on all paths from its start whose targets the file has. Other bytes are
// not known to be code: executable segments have data, which may look like a call.

package find

import (
	"cmp"
	"encoding/binary"
	"slices"

	"golang.org/x/arch/x86/x86asm"

	"vfix.dev/vfix/rewriter/elf"
	"vfix.dev/vfix/rewriter/x86"
)

const (
	// maxBody is the maximum number of instructions of one function.
	maxBody = 1 << 16
	// maxTable is the maximum number of entries read from one jump table, and maxBases the maximum number of
	// addresses in a function that may be tables.
	maxTable = 1 << 12
	maxBases = 1 << 10
)

// body is the code of a function, including the parts that a compiler put elsewhere.
type body struct {
	elf.Func
	parts []elf.Func
	lens  map[uint64]uint8 // of each instruction reached, by its address
	// away are the other functions that it jumps to, calls those that it calls.
	away, calls []uint64
	// jumps are the indirect jumps through a register or a table, targets the addresses that the tables lead to.
	jumps, targets []uint64
	// damaged is why not all of the code is known, "" if it is.
	damaged string

	frame  frame
	framed bool // frame was computed

	sites     []Site   // those in it that load the address or store it
	pageCalls []uint64 // see findPageCalls; nil until it is needed
	pageWords []int64

	hasFrame bool // an instruction makes rbp a frame pointer

	bases, labels []uint64        // addresses in its instructions: of data, of its own code
	begun         map[uint64]bool // bases whose first entries were followed
}

// maxParts is the maximum number of parts of one function.
const maxParts = 16

// bodyOf returns the code of fn, followed from its start.
func (c *code) bodyOf(fn elf.Func) *body {
	if b, ok := c.bodies[fn.Start]; ok {
		return b
	}
	b := &body{Func: fn, lens: make(map[uint64]uint8), begun: make(map[uint64]bool)}
	c.bodies[fn.Start] = b
	b.walk(c, fn.Start)
	for tried := make(map[uint64]bool); b.tables(c, tried); {
	}
	return b
}

func (b *body) fail(why string) {
	if b.damaged == "" {
		b.damaged = why
	}
}

// covers reports whether vaddr is in a known part of the function.
func (b *body) covers(vaddr uint64) bool {
	return b.Holds(vaddr) || slices.ContainsFunc(b.parts, func(p elf.Func) bool { return p.Holds(vaddr) })
}

// joins adds the function part around vaddr, to which the function jumps, unless vaddr is the start of another
// function.
func (b *body) joins(c *code, vaddr uint64) bool {
	d, ok := c.fn.around(vaddr)
	if !ok || vaddr == d.Start && c.fn.entered[vaddr] || b.End == 0 || len(b.parts) == maxParts {
		return false
	}
	b.parts = append(b.parts, d)
	return true
}

// walk follows the code from an address.
func (b *body) walk(c *code, from uint64) {
	w := addresses(from)
	whole := w.run(maxBody, func(at uint64, _ struct{}) bool {
		if b.lens[at] != 0 {
			return true
		}
		if !b.covers(at) && !b.joins(c, at) {
			b.away = append(b.away, at)
			return true
		}
		i, ok := c.at(at)
		if !ok {
			b.fail("it reaches bytes that are not a known instruction")
			return true
		}
		b.lens[at] = uint8(i.Len)
		b.names(c, &i)
		switch {
		case i.Flow == x86.FlowCall:
			b.calls = append(b.calls, i.Target)
		case i.Flow == x86.FlowIndirect:
			if _, fixed := i.MemVaddr(); !fixed {
				b.jumps = append(b.jumps, at) // tables follows it
			}
			return true
		}
		all, known := c.next(b, &i)
		if !known {
			b.fail("its table of landing pads is not understood")
		}
		for _, to := range all {
			// If its end is not known, the next function's start is its end.
			if !i.Calls() || b.End != 0 || to != i.Next() || !c.fn.starts.has(to) {
				w.add(to, struct{}{})
			}
		}
		return true
	})
	if !whole {
		b.fail("it is too long")
	}
}

// names records the addresses in an instruction.
func (b *body) names(c *code, i *x86.Instr) {
	b.hasFrame = b.hasFrame || i.Op == x86asm.MOV && i.Args[0] == x86asm.RBP && i.Args[1] == x86asm.RSP
	if len(b.bases)+len(b.labels) >= maxBases {
		return
	}
	note := func(v uint64) {
		switch p := c.f.Load(v); {
		case p == nil:
		case b.End != 0 && b.covers(v):
			b.labels = append(b.labels, v)
		default:
			b.bases = append(b.bases, v)
		}
	}
	if m, ok := i.Mem(); ok {
		switch v, fixed := i.MemVaddr(); {
		case fixed: // a table, or the source of one
			note(v)
		case m.Base == 0 || m.Index != 0: // table(,%reg,8)
			note(uint64(m.Disp))
		}
	}
	if n, ok := i.Args[1].(x86asm.Imm); ok && i.Op == x86asm.MOV && c.f.Type == elf.TypeExec {
		note(uint64(n))
	}
}

// tables follows the code at the addresses in the function that its indirect jumps may go to and that were not tried
// so far; it reports whether that may lead to others. Doubtful ones come last, and count only outside of the
// instructions that are known then.
func (b *body) tables(c *code, tried map[uint64]bool) (found bool) {
	switch {
	case b.End == 0 || len(b.jumps) == 0:
		return false
	case len(b.bases)+len(b.labels) >= maxBases:
		b.fail("it names too many addresses")
		b.targets = nil
		return false
	}
	take := func(v uint64) {
		if tried[v] {
			return
		}
		tried[v] = true
		b.targets = append(b.targets, v)
		if b.lens[v] == 0 {
			found = true
			b.walk(c, v)
		}
	}
	sure, doubtful := b.entries(c)
	for _, t := range slices.Concat(b.bases, b.labels) {
		found, b.begun[t] = found || !b.begun[t], true
	}
	for _, v := range sure {
		take(v)
	}
	if found {
		return true
	}
	for _, v := range doubtful {
		if c.entry(slowEntry) && v != b.Start && !c.fn.entered[v] && (b.lens[v] != 0 || !b.runsOver(v)) {
			take(v)
		}
	}
	return found
}

// entries returns the entries of tables whose addresses the function has, and the labels, which a computed goto
// uses. Entries are addresses of 8 bytes, or offsets of 4 or 8 from the table itself or from a label. A table ends
// at an entry that leaves the function without entering a split part. Doubtful are offsets that may be from
// another base, such as those after the start of the next table, and all addresses near the sites in words of the
// file, relocations and instructions, as they may not be for a jump. Of a table that was not followed so far, only the
// first entry is returned: its code may have the address of the next table.
func (b *body) entries(c *code) (sure, doubtful []uint64) {
	entry := func(to *[]uint64, v uint64) bool {
		if !c.entry(slowEntry) || !b.covers(v) && !b.enters(c, v) {
			return false
		}
		*to = append(*to, v)
		return true
	}
	bases, labels := vaddrs(slices.Clone(b.bases)), vaddrs(slices.Clone(b.labels))
	bases.normalize()
	labels.normalize()
	offsets := func(t, base uint64, step int64) {
		size, to := uint64(max(step, -step)), &sure
		if base != t || step < 0 {
			to = &doubtful
		}
		for n := range int64(maxTable) {
			at := t + uint64(step*n)
			if step < 0 {
				at -= size
			}
			w := c.mem(at)
			if uint64(len(w)) < size {
				return
			}
			v := base + elf.Signed(w)
			if size == x86.WordSize {
				v = base + binary.LittleEndian.Uint64(w)
			}
			if n > 0 && bases.has(at) {
				to = &doubtful
			}
			if v == base && base == t || !entry(to, v) || !b.begun[t] {
				return
			}
		}
	}
	for _, t := range slices.Concat(bases, labels) {
		for n := range uint64(maxTable) {
			if !entry(&sure, c.pointer(t+x86.WordSize*n)) {
				break
			}
		}
		for _, step := range [...]int64{halfSize, x86.WordSize, -halfSize, -x86.WordSize} {
			offsets(t, t, step)
		}
		for _, base := range labels {
			offsets(t, base, halfSize)
		}
		entry(&sure, t) // a label, perhaps in another part
	}
	for _, p := range append([]elf.Func{b.Func}, b.parts...) {
		doubtful = append(doubtful, c.refs.named.between(p.Start, p.End)...)
	}
	return sure, doubtful
}

// enters adds the split part around vaddr, to which a table leads: it is not a function, as the unwind tables show
// if no symbol names it.
func (b *body) enters(c *code, vaddr uint64) bool {
	d, _ := c.fn.around(vaddr)
	if c.fn.entered[d.Start] {
		return false
	}
	begin, known := c.f.CFA(d, d.Start)
	return !(vaddr == d.Start && known && begin == elf.EntryCFA) && b.joins(c, vaddr)
}

// relative is a word that the loader fills with an address of code.
type relative struct{ at, to uint64 }

func (r relative) compare(o relative) int { return cmp.Compare(r.at, o.at) }

// pointer returns the address in the word at vaddr after relocation, 0 if there is no word.
func (c *code) pointer(vaddr uint64) uint64 {
	if c.relative == nil {
		c.relative = []relative{}
		n := 0
		c.f.EachRela(func(r elf.Rela) {
			if n++; r.Type == elf.RRelative && n <= maxRelative && c.f.ExecLoad(r.Addend) {
				c.relative = append(c.relative, relative{r.At, r.Addend})
			}
		})
		if !slices.IsSortedFunc(c.relative, relative.compare) { // linkers usually sort them
			slices.SortStableFunc(c.relative, relative.compare)
		}
	}
	if i, ok := slices.BinarySearchFunc(c.relative, relative{at: vaddr}, relative.compare); ok {
		return c.relative[i].to
	}
	b := c.mem(vaddr)
	if len(b) < 8 {
		return 0
	}
	return binary.LittleEndian.Uint64(b)
}

// maxRelative is the maximum number of relocations that are read.
const maxRelative = 1 << 20

// runsOver reports whether vaddr is in the middle of a reached instruction.
func (b *body) runsOver(vaddr uint64) bool {
	for n := uint64(1); n < x86.MaxLen; n++ {
		if l := b.lens[vaddr-n]; uint64(l) > n {
			return true
		}
	}
	return false
}

// begins reports whether a known instruction of n bytes begins at vaddr, and no other known one overlaps it.
func (b *body) begins(vaddr, n uint64) bool {
	if uint64(b.lens[vaddr]) != n || b.runsOver(vaddr) {
		return false
	}
	for at := vaddr + 1; at < vaddr+n; at++ {
		if b.lens[at] != 0 {
			return false
		}
	}
	return true
}
