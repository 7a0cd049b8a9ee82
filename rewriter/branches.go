// Which addresses around the sites something refers to: branches, words in data, addresses in
// instructions, symbols. A site whose inside is such an address may not be overwritten as a
// whole. Where it is not known whether bytes are an instruction, they count as one.

package rewriter

import (
	"cmp"
	"encoding/binary"
	"slices"
	"sort"

	"vfix.dev/vfix/rewriter/elf"
	"vfix.dev/vfix/rewriter/x86"
)

const (
	// siteMargin is how far around a site targets are kept, in bytes: a stub begins at
	// most 4 bytes before its mov and ends at most 5 after its call.
	siteMargin = 16
	// rel8Reach is how far a short branch reaches, with its own length, in bytes.
	rel8Reach = 130
	// maxSpan is the longest stretch from a mov to its call, in bytes, that is searched
	// for targets.
	maxSpan = 64
	// maxJumps bounds the jumps that are kept.
	maxJumps = 1 << 16
)

// jump is a jump with a displacement of 4 bytes, or bytes that look like one.
type jump struct{ from, to uint64 }

// targets are the addresses near sites that something refers to.
type targets struct {
	windows []Extent // in ascending order, without overlap
	lo, hi  uint64   // of all windows
	branch  []uint64 // sorted
	jumps   []jump
	called  map[uint64][]uint64 // the calls of an address
	taken   []uint64            // addresses that are named, not branched to
	fixed   bool                // addresses have 4 bytes, too: ET_EXEC
	blind   bool                // there is too much to read all tables of offsets
}

// siteSpan returns the bytes from the mov to the end of its first call, where they are one
// short stretch of code.
func siteSpan(s *Site) (Extent, bool) {
	end := s.Call + uint64(s.CallLen)
	if s.Call <= s.Vaddr || end-s.Vaddr > maxSpan {
		return Extent{}, false
	}
	return Extent{s.Vaddr, end - s.Vaddr}, true
}

// findTargets looks through the file once, for what refers to the sites and to the functions
// around them.
func findTargets(c *code, fn *functions, sites []Site) (*targets, error) {
	t := &targets{called: make(map[uint64][]uint64), fixed: c.f.Type == elf.TypeExec}
	var near []Extent // the sites' own windows
	for i := range sites {
		e, ok := siteSpan(&sites[i])
		if !ok {
			near = append(near, Extent{sites[i].Vaddr, uint64(sites[i].Len)})
			continue
		}
		near = append(near, Extent{e.Vaddr - siteMargin, e.Len + 2*siteMargin})
		b := c.holder(fn, sites[i].Vaddr)
		if b == nil {
			continue
		}
		t.windows = append(t.windows, Extent{b.Start, max(b.End, b.Start+1) - b.Start})
		for _, to := range b.away {
			t.windows = append(t.windows, Extent{to, 1})
		}
	}
	if len(near) == 0 {
		return t, nil
	}
	t.windows = append(t.windows, near...)
	if err := t.read(c.f); err != nil {
		return nil, err
	}
	if err := t.offsets(c); err != nil {
		return nil, err
	}
	for _, v := range fn.labels {
		t.add(v)
	}
	for _, w := range joined(near) {
		t.rel8(c, fn, w)
	}
	slices.Sort(t.branch)
	t.branch = slices.Compact(t.branch)
	return t, nil
}

// read looks through the whole file for what refers to the windows.
func (t *targets) read(f *file) error {
	t.windows = joined(t.windows)
	t.lo, t.hi = t.windows[0].Vaddr, t.windows[len(t.windows)-1].end()
	for i := range f.Progs {
		p := &f.Progs[i]
		if p.Type != elf.PTLoad || p.Filesz == 0 {
			continue
		}
		if err := f.Chunks(p, t.words); err != nil {
			return err
		}
		if p.Flags&elf.PFX == 0 {
			continue
		}
		if err := f.Chunks(p, t.rel32); err != nil {
			return err
		}
	}
	return f.RelaWords(func(_, addend uint64) { t.take(addend) })
}

func (e Extent) end() uint64 { return e.Vaddr + e.Len }

// joined returns the extents in ascending order, those that touch each other as one.
func joined(all []Extent) []Extent {
	slices.SortFunc(all, func(a, b Extent) int { return cmp.Compare(a.Vaddr, b.Vaddr) })
	var out []Extent
	for _, e := range all {
		if n := len(out); n > 0 && out[n-1].end() >= e.Vaddr {
			out[n-1].Len = max(out[n-1].end(), e.end()) - out[n-1].Vaddr
			continue
		}
		out = append(out, e)
	}
	return out
}

// inWindow reports whether vaddr is near a site.
func (t *targets) inWindow(vaddr uint64) bool {
	if vaddr < t.lo || vaddr >= t.hi {
		return false
	}
	i := sort.Search(len(t.windows), func(i int) bool { return t.windows[i].end() > vaddr })
	return i < len(t.windows) && t.windows[i].Vaddr <= vaddr
}

// add keeps a target that is near a site. There are few: duplicates are dropped in bulk.
func (t *targets) add(vaddr uint64) {
	if !t.inWindow(vaddr) {
		return
	}
	if t.branch = append(t.branch, vaddr); len(t.branch)%maxSites == 0 {
		slices.Sort(t.branch)
		t.branch = slices.Compact(t.branch)
	}
}

// inside reports whether something lands in [lo, hi).
func (t *targets) inside(lo, hi uint64) bool {
	i, _ := slices.BinarySearch(t.branch, lo)
	return i < len(t.branch) && t.branch[i] < hi
}

// words finds 8-byte words that are addresses near sites: jump tables and immediates of programs
// at fixed addresses, wherever they stand, and what RELR relocates.
func (t *targets) words(b []byte, vaddr uint64, lo, hi int) {
	step := 8
	if t.fixed {
		step = 1
	}
	for i := lo + int(-(vaddr+uint64(lo))&uint64(step-1)); i < hi && i+8 <= len(b); i += step {
		t.take(binary.LittleEndian.Uint64(b[i:]))
	}
}

// take keeps an address near a site that is named somewhere.
func (t *targets) take(vaddr uint64) {
	if t.inWindow(vaddr) {
		t.taken = append(t.taken, vaddr)
		t.add(vaddr)
	}
}

// rel32 finds the bytes of call, jmp and jcc with a 4-byte displacement, of lea, and addresses
// of 4 bytes, wherever they stand: that bytes which are none of these point into a window by
// chance is rare.
func (t *targets) rel32(b []byte, vaddr uint64, lo, hi int) {
	le := binary.LittleEndian
	for i := lo; i < hi && i+5 <= len(b); i++ {
		if t.fixed {
			t.take(uint64(le.Uint32(b[i:])))
		}
		op := b[i]
		if op == 0x8d && i+6 <= len(b) && b[i+1]&0xc7 == 5 {
			t.take(vaddr + uint64(i) + 6 + uint64(int64(int32(le.Uint32(b[i+2:])))))
		}
		if op != 0xe8 && op != 0xe9 && (op&0xf0 != 0x80 || i == 0 || b[i-1] != 0x0f) {
			continue
		}
		from := vaddr + uint64(i)
		target := from + 5 + uint64(int64(int32(le.Uint32(b[i+1:]))))
		if !t.inWindow(target) {
			continue
		}
		t.add(target)
		switch {
		case op == 0xe8:
			t.called[target] = append(t.called[target], from)
			continue
		case op != 0xe9:
			from-- // 0f
		}
		if len(t.jumps) < maxJumps {
			t.jumps = append(t.jumps, jump{from, target})
		}
	}
}

// rel8 finds short branches into the window. Their opcodes are common bytes: those that are
// known to lie within another instruction do not count.
func (t *targets) rel8(c *code, fn *functions, w Extent) {
	var near []*body
	for at := w.Vaddr - rel8Reach; at < w.end()+rel8Reach; at++ {
		if b := c.holder(fn, at); b != nil && !slices.Contains(near, b) {
			near = append(near, b)
		}
	}
	for at := w.Vaddr - rel8Reach; at < w.end()+rel8Reach; at++ {
		b := c.bytes(at)
		if len(b) < 2 || b[0]&0xf0 != 0x70 && b[0] != 0xeb && b[0]&0xfc != 0xe0 {
			continue
		}
		within := false
		for _, k := range near {
			within = within || k.lens[at] == 0 && k.runsOver(at)
		}
		if !within {
			t.add(at + 2 + uint64(int64(int8(b[1]))))
		}
	}
}

// shared reports whether the call of s must stay as it is.
func (t *targets) shared(c *code, s *Site) bool {
	span, ok := siteSpan(s)
	if !ok || s.Calls > 1 || t.inside(span.Vaddr+1, span.end()) {
		return true
	}
	for at := s.Vaddr; at != s.Call; { // straight on, without a branch
		i, ok := c.at(at)
		if !ok || i.Flow != x86.FlowNext || at > s.Call {
			return true
		}
		at = i.Next()
	}
	return false
}

// The two instructions that keep the stack aligned in a stub, and ret.
var (
	subRsp8 = []byte{0x48, 0x83, 0xec, 0x08}
	addRsp8 = []byte{0x48, 0x83, 0xc4, 0x08}
)

const opRet = 0xc3

// stub returns the extent of the function around s where it is nothing but a call of the
// page and its first byte is known to begin a function; else Len is 0.
func (t *targets) stub(c *code, s *Site) Extent {
	if !s.Adjacent() || s.Calls != 1 {
		return Extent{}
	}
	start, end := s.Vaddr, s.Call+uint64(s.CallLen)
	after := func(b ...byte) bool { return c.has(end, b...) }
	switch {
	case s.Tail:
	case c.has(start-4, subRsp8...) && after(append(slices.Clone(addRsp8), opRet)...):
		start -= uint64(len(subRsp8))
		end += uint64(len(addRsp8)) + 1
	case after(opRet):
		end++
	default:
		return Extent{}
	}
	if t.inside(start+1, end) {
		return Extent{}
	}
	if !c.starts.has(start) && len(t.called[start]) == 0 {
		return Extent{}
	}
	return Extent{start, end - start}
}
