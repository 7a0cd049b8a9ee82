// Which addresses around the sites something refers to: branches, words in data, addresses in
// instructions, symbols. A site whose inside is such an address may not be overwritten as a
// whole. If it is not known whether bytes are an instruction, they count as one.

package find

import (
	"cmp"
	"encoding/binary"
	"slices"
	"sort"

	"vfix.dev/vfix/rewriter/elf"
	"vfix.dev/vfix/rewriter/x86"
)

const (
	// rel8Reach is how far a short branch reaches, with its own length, in bytes.
	rel8Reach = 130
	// maxBranches bounds the branches that are kept for one address.
	maxBranches = 1 << 12
)

// targets are the addresses near sites that something refers to.
type targets struct {
	windows []Extent            // in ascending order, without overlap
	lo, hi  uint64              // of all windows
	all     []uint64            // sorted
	from    map[uint64][]uint64 // by an address, the bytes that look like a call of it or a jump to it
	taken   []uint64            // addresses that are named, not branched to
	names   bool                // addresses that are named count
	fixed   bool                // they also have 4 bytes: ET_EXEC
	c       *code
	last    uint64 // the last that a lea named
}

// targets returns the targets in the windows, from one look through the file; named says that it is
// not for branches alone.
func (c *code) targets(windows []Extent, named bool) (*targets, error) {
	f := c.f
	t := &targets{c: c, from: make(map[uint64][]uint64), names: named, fixed: named && f.Type == elf.TypeExec, windows: joined(windows)}
	if len(windows) == 0 {
		return t, nil
	}
	t.lo, t.hi = t.windows[0].Vaddr, t.windows[len(t.windows)-1].End()
	err := f.EachChunk(0, 0, func(p *elf.Prog, b []byte, vaddr uint64, lo, hi int) {
		if named {
			t.words(b, vaddr, lo, hi)
		}
		if p.Flags&elf.PFX != 0 {
			t.rel32(b, vaddr, lo, hi)
		}
	})
	if err != nil {
		return nil, err
	}
	return t, f.EachRela(func(r elf.Rela) {
		if r.Type == elf.RRelative {
			t.take(r.Addend)
		}
	})
}

// findTargets looks for what refers to the bytes that a patch of the sites may change.
func findTargets(c *code, sites []Site) (*targets, error) {
	windows := make([]Extent, len(sites))
	for i := range sites {
		s := &sites[i]
		windows[i] = Extent{s.Vaddr - uint64(len(subRsp8)), uint64(len(subRsp8)) + uint64(s.Len)}
		if s.Adjacent() {
			windows[i].Len += uint64(s.CallLen)
		}
	}
	t, err := c.targets(windows, true)
	if err != nil {
		return nil, err
	}
	for _, v := range c.fn.labels {
		t.add(v)
	}
	for _, w := range t.windows {
		t.rel8(c, w)
	}
	slices.Sort(t.all)
	t.all = slices.Compact(t.all)
	return t, nil
}

func (e Extent) End() uint64 { return e.Vaddr + e.Len }

// joined returns the extents in ascending order, those that touch each other as one.
func joined(all []Extent) []Extent {
	slices.SortFunc(all, func(a, b Extent) int { return cmp.Compare(a.Vaddr, b.Vaddr) })
	var out []Extent
	for _, e := range all {
		if n := len(out); n > 0 && out[n-1].End() >= e.Vaddr {
			out[n-1].Len = max(out[n-1].End(), e.End()) - out[n-1].Vaddr
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
	i := sort.Search(len(t.windows), func(i int) bool { return t.windows[i].End() > vaddr })
	return i < len(t.windows) && t.windows[i].Vaddr <= vaddr
}

// add keeps a target that is near a site. There are few: duplicates are dropped in bulk.
func (t *targets) add(vaddr uint64) {
	if !t.inWindow(vaddr) {
		return
	}
	if t.all = append(t.all, vaddr); len(t.all)%maxSites == 0 {
		slices.Sort(t.all)
		t.all = slices.Compact(t.all)
	}
}

// inside reports whether something lands in [lo, hi).
func (t *targets) inside(lo, hi uint64) bool {
	i, _ := slices.BinarySearch(t.all, lo)
	return i < len(t.all) && t.all[i] < hi
}

// words finds 8-byte words that are addresses near sites: jump tables and immediates of programs
// at fixed addresses, at any place, and what RELR relocates.
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
// of 4 bytes, at any place: that other bytes point into a window by
// chance is rare.
func (t *targets) rel32(b []byte, vaddr uint64, lo, hi int) {
	le := binary.LittleEndian
	for i := lo; i < hi && i+5 <= len(b); i++ {
		if t.fixed {
			t.take(uint64(le.Uint32(b[i:])))
		}
		op := b[i]
		if op == 0x8d && t.names && i+6 <= len(b) && b[i+1]&0xc7 == 5 {
			named := vaddr + uint64(i) + 6 + uint64(int64(int32(le.Uint32(b[i+2:]))))
			t.take(named)
			t.offsets(named, named)
			t.offsets(named, t.last)
			t.offsets(t.last, named)
			t.last = named
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
		if op != 0xe8 && op != 0xe9 {
			from-- // 0f
		}
		if len(t.from[target]) < maxBranches {
			t.from[target] = append(t.from[target], from)
		}
	}
}

// offsets adds what a table of offsets of 4 bytes leads to: compilers' tables lead into their own
// function, but one in assembly may lead into another.
func (t *targets) offsets(table, base uint64) {
	const piece = 64 // bytes
	for at := table; at-table < 4*maxTable && t.c.entries > 0; at += piece {
		b, err := t.c.f.Mem(at, piece)
		if err != nil {
			return // Scan reports it
		}
		for ; len(b) >= 4; b = b[4:] {
			if !t.c.entry() {
				return
			}
			to := base + uint64(int64(int32(binary.LittleEndian.Uint32(b))))
			if !t.c.f.ExecLoad(to) {
				return
			}
			t.add(to)
		}
		if t.c.f.Load(at+piece) == nil {
			return
		}
	}
}

// rel8 finds short branches into the window. Their opcodes are common bytes: those that are
// known to lie within another instruction do not count.
func (t *targets) rel8(c *code, w Extent) {
	var near []*body
	for at := w.Vaddr - rel8Reach; at < w.End()+rel8Reach; at++ {
		if b := c.holder(at); b != nil && !slices.Contains(near, b) {
			near = append(near, b)
		}
	}
	for at := w.Vaddr - rel8Reach; at < w.End()+rel8Reach; at++ {
		b := c.bytes(at)
		if len(b) < 2 || b[0]&0xf0 != 0x70 && b[0] != 0xeb && b[0]&0xfc != 0xe0 {
			continue
		}
		within := false
		for _, k := range near {
			within = within || k.lens[at] == 0 && k.runsOver(at)
		}
		if to := at + 2 + uint64(int64(int8(b[1]))); !within && t.inWindow(to) {
			t.add(to)
			t.from[to] = append(t.from[to], at)
		}
	}
}

// The two instructions that keep the stack aligned in a stub, and ret.
var (
	subRsp8 = []byte{0x48, 0x83, 0xec, 0x08}
	addRsp8 = []byte{0x48, 0x83, 0xc4, 0x08}
)

const (
	opRet = 0xc3
	// jumpLen is the length in bytes of jmp rel32.
	jumpLen = 5
)

// alone reports whether s and its call may be overwritten as one: the value reaches that call and no
// other, and nothing enters between.
func (t *targets) alone(b *body, s *Site) bool {
	stray := func(at uint64) bool { return at != s.Call }
	return s.Verdict == Live && s.Loads() && s.Adjacent() && s.Calls == 1 && b.damaged == "" &&
		!slices.ContainsFunc(b.jumps, stray) && !t.inside(s.Vaddr+1, s.Call+uint64(s.CallLen))
}

// stub returns the extent of the function around s if it is nothing but a call of the page
// through rax, and nothing enters the bytes that a jump over its start changes; else Len is 0.
func (t *targets) stub(c *code, b *body, s *Site) Extent {
	if s.Verdict != Live || !s.Loads() || !s.Adjacent() || s.Calls != 1 || s.Reg != x86.Rax {
		return Extent{}
	}
	start, end, n := s.Vaddr, s.Call+uint64(s.CallLen), 2
	switch {
	case s.Tail:
	case c.has(start-4, subRsp8...) && c.has(end, append(slices.Clone(addRsp8), opRet)...):
		start, end, n = start-4, end+5, 5
	default:
		end, n = end+1, 3
		if !c.has(end-1, opRet) {
			return Extent{}
		}
	}
	if b.Start != start || len(b.lens) != n || t.inside(start+1, start+jumpLen) {
		return Extent{}
	}
	return Extent{start, end - start}
}

// syscallLen is the length in bytes of a function that is a system call and changes rax alone.
const syscallLen = 14

// bySyscall reports whether a system call may take the place of s and its call, or of the whole stub
// around it: rcx and r11, which it changes, are not read, or saved there.
func (c *code) bySyscall(t *targets, b *body, s *Site) bool {
	if s.Stub.Len >= syscallLen {
		return !t.inside(s.Stub.Vaddr+1, s.Stub.End())
	}
	return s.Alone && !s.Tail && c.dead(s.Call+uint64(s.CallLen), x86.RegsOf(x86.Rcx, x86.R11), b)
}
