package rewriter

import (
	"encoding/binary"
	"slices"
	"sort"
	"strings"

	"golang.org/x/arch/x86/x86asm"
)

// Which addresses around the sites other code branches to. A site whose inside is such an
// address may not be overwritten as a whole.

const (
	// siteMargin is how far around a site targets are kept, in bytes: a stub begins at
	// most 4 bytes before its mov and ends at most 5 after its call.
	siteMargin = 16
	// rel8Reach is how far a short branch reaches, with its own length, in bytes.
	rel8Reach = 130
	// streams is how many linear decodes vote on where instructions begin, where no
	// function start is known before a site.
	streams = 16
	// maxSpan is the longest stretch from a mov to its call, in bytes, that is searched
	// for targets.
	maxSpan = 64
)

// targets are the addresses near sites that something refers to.
type targets struct {
	windows []Extent // in ascending order, without overlap
	lo, hi  uint64   // of all windows
	branch  []uint64 // sorted: targets of branches, and of words in data
	called  map[uint64]bool
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

// findTargets looks through the file once.
func findTargets(c *code, sites []Site) (*targets, error) {
	t := &targets{called: make(map[uint64]bool)}
	for i := range sites {
		if e, ok := siteSpan(&sites[i]); ok {
			t.addWindow(Extent{e.Vaddr - siteMargin, e.Len + 2*siteMargin})
		}
	}
	if len(t.windows) == 0 {
		return t, nil
	}
	t.lo, t.hi = t.windows[0].Vaddr, t.windows[len(t.windows)-1].end()
	s := &search{f: c.f, buf: make([]byte, min(searchChunk, c.f.size))}
	for i := range c.f.progs {
		p := &c.f.progs[i]
		if p.typ != ptLoad || p.filesz == 0 {
			continue
		}
		if err := s.chunks(p, t.words); err != nil {
			return nil, err
		}
		if p.flags&pfX == 0 {
			continue
		}
		if err := s.chunks(p, t.rel32); err != nil {
			return nil, err
		}
	}
	if err := eachRela(c.f, func(typ uint32, addend uint64) {
		if typ == rRelative {
			t.add(addend)
		}
	}); err != nil {
		return nil, err
	}
	for _, w := range t.windows {
		t.rel8(c, w)
	}
	slices.Sort(t.branch)
	t.branch = slices.Compact(t.branch)
	return t, nil
}

func (e Extent) end() uint64 { return e.Vaddr + e.Len }

// addWindow joins e, which is not before the windows so far, to them.
func (t *targets) addWindow(e Extent) {
	if n := len(t.windows); n > 0 && t.windows[n-1].end() >= e.Vaddr {
		last := &t.windows[n-1]
		last.Len = max(last.end(), e.end()) - last.Vaddr
		return
	}
	t.windows = append(t.windows, e)
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

// words finds aligned 8-byte words that are addresses near sites: jump tables of programs
// at fixed addresses, and what RELR relocates.
func (t *targets) words(b []byte, vaddr uint64, lo, hi int) {
	for i := lo + int(-(vaddr+uint64(lo))&7); i < hi && i+8 <= len(b); i += 8 {
		t.add(binary.LittleEndian.Uint64(b[i:]))
	}
}

// rel32 finds the bytes of call, jmp and jcc with a 4-byte displacement, wherever they
// stand: that bytes which are none of these point into a window by chance is rare.
func (t *targets) rel32(b []byte, vaddr uint64, lo, hi int) {
	for i := lo; i < hi && i+5 <= len(b); i++ {
		op := b[i]
		if op != 0xe8 && op != 0xe9 && (op&0xf0 != 0x80 || i == 0 || b[i-1] != 0x0f) {
			continue
		}
		target := vaddr + uint64(i) + 5 + uint64(int64(int32(binary.LittleEndian.Uint32(b[i+1:]))))
		if !t.inWindow(target) {
			continue
		}
		t.add(target)
		if op == 0xe8 {
			t.called[target] = true
		}
	}
}

// rel8 finds short branches into the window. Their opcodes are common bytes, so only what
// a linear decode finds to be an instruction counts: from the start of the function up to
// the first site, where that is known and arrives there, and else where most of several
// decodes from different places agree; and from the first site on, which is an instruction.
func (t *targets) rel8(c *code, w Extent) {
	from, site, to := w.Vaddr-rel8Reach, w.Vaddr+siteMargin, w.end()+rel8Reach
	note := func(i *instr) {
		if i.flow == flowJump || i.flow == flowCond {
			t.add(i.target)
		}
	}
	c.sweep(site, to, note)
	known := site
	if start, ok := c.starts.enclosing(site); ok && c.arrives(start, site) {
		c.sweep(start, site, note)
		known = start
	}
	if known <= from {
		return
	}
	votes := map[uint64]int{}
	for n := range uint64(streams) {
		c.sweep(from-3*streams+n, known, func(i *instr) { votes[i.addr]++ })
	}
	for at, n := range votes {
		if i, ok := c.at(at); ok && 2*n >= streams {
			note(&i)
		}
	}
}

// shared reports whether the call of s must stay as it is.
func (t *targets) shared(c *code, s *Site) bool {
	span, ok := siteSpan(s)
	if !ok || s.Calls > 1 {
		return true
	}
	if t.inside(span.Vaddr+1, span.end()) {
		return true
	}
	for at := s.Vaddr; at != s.Call; { // straight on, without a branch
		i, ok := c.at(at)
		if !ok || i.flow != flowNext || at > s.Call {
			return true
		}
		at = i.next()
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
	if !c.starts.has(start) && !t.called[start] && !c.padded(start) {
		return Extent{}
	}
	return Extent{start, end - start}
}

// padded reports whether vaddr is aligned as functions are and what stands before it is
// padding, a ret or a jmp.
func (c *code) padded(vaddr uint64) bool {
	const (
		align = 16
		// An immediate of zero has 8 bytes at most.
		zeros = "\x00\x00\x00\x00\x00\x00\x00\x00\x00"
	)
	if vaddr%align != 0 {
		return false
	}
	before := c.bytes(vaddr - maxInstLen)
	if len(before) < maxInstLen {
		return false
	}
	before = before[:maxInstLen]
	switch before[maxInstLen-1] {
	case 0x90, 0xcc, opRet: // nop, int3
		return true
	}
	if strings.HasSuffix(string(before), zeros) || before[maxInstLen-2] == 0xeb || before[maxInstLen-5] == 0xe9 {
		return true
	}
	for n := 2; n <= maxInstLen; n++ { // a long nop that ends here
		if i, ok := decode(before[maxInstLen-n:], 0); ok && i.Op == x86asm.NOP && i.Len == n {
			return true
		}
	}
	return false
}
