// The addresses around the sites that something refers to: branches, words in data, addresses in instructions,
// symbols. A site with such an address inside may not be overwritten as a whole. Bytes that may be an instruction
// count as one.

package find

import (
	"cmp"
	"encoding/binary"
	"iter"
	"slices"
	"sort"

	"vfix.dev/vfix/rewriter/elf"
	"vfix.dev/vfix/rewriter/x86"
)

const (
	// rel8Reach is the reach of a short branch, including its own length, in bytes.
	rel8Reach = 130
	// maxRefs is the maximum number of references of each kind that are kept, and maxBranches the maximum number
	// of branches to one address that are checked for being instructions.
	maxRefs     = 1 << 22
	maxBranches = 1 << 12
)

// refs are the references to the bytes near sites, from one pass over the file.
type refs struct {
	c        *code
	windows  []Extent // in ascending order, without overlaps
	lo, hi   uint64   // of all windows
	branches []branch // possible calls and jumps, in the order of their targets
	named    vaddrs   // addresses that are not branched to
	others   vaddrs   // labels, and targets of tables of offsets
	fixed    bool     // addresses also have 4 bytes: ET_EXEC
	last     uint64   // the address in the last lea
}

// branch is a branch to an address, at another one.
type branch struct{ to, from uint64 }

func (b branch) compare(o branch) int {
	return cmp.Or(cmp.Compare(b.to, o.to), cmp.Compare(b.from, o.from))
}

// findRefs finds the references to the bytes around the sites: those that a patch may change, and the functions
// near them.
func findRefs(c *code, sites []Site) *refs {
	var windows []Extent
	for i := range sites {
		from := sites[i].Vaddr - min(nearSite, sites[i].Vaddr)
		windows = append(windows, Extent{from, sites[i].Vaddr - from + nearSite})
	}
	r := &refs{c: c, windows: joined(windows), fixed: c.f.Type == elf.TypeExec}
	if len(r.windows) == 0 {
		return r
	}
	r.lo, r.hi = r.windows[0].Vaddr, r.windows[len(r.windows)-1].End()
	c.f.EachChunk(0, 0, func(p *elf.Prog, b []byte, vaddr uint64, lo, hi int) {
		r.words(b, vaddr, lo, hi)
		if p.Flags&elf.PFX != 0 {
			r.code(b, vaddr, lo, hi)
		}
	})
	c.f.EachRela(func(a elf.Rela) {
		if a.Type == elf.RRelative {
			r.add(&r.named, a.Addend)
		}
	})
	slices.SortFunc(r.branches, branch.compare)
	r.named.normalize()
	return r
}

// complete adds labels and short branches, which need the functions around the sites.
func (r *refs) complete(sites []Site) {
	for _, v := range r.c.fn.labels {
		r.add(&r.others, v)
	}
	r.others.normalize()
	var windows []Extent
	for i := range sites {
		windows = append(windows, sites[i].surroundings())
	}
	for _, w := range joined(windows) {
		r.rel8(w)
	}
	slices.SortFunc(r.branches, branch.compare)
}

// surroundings returns the bytes that a patch of the site may change, and more.
func (s *Site) surroundings() Extent { return Extent{s.Vaddr - maxStub, 2*maxStub + uint64(s.Len)} }

// maxStub is more than the length of the longest stub, in bytes.
const maxStub = 32

// End returns the address behind the range.
func (e Extent) End() uint64 { return e.Vaddr + e.Len }

// joined returns the extents in ascending order, with adjacent ones joined.
func joined(all []Extent) []Extent {
	slices.SortFunc(all, func(a, b Extent) int { return cmp.Compare(a.Vaddr, b.Vaddr) })
	var out []Extent
	for _, e := range all {
		if n := len(out); n > 0 && out[n-1].End() >= e.Vaddr {
			out[n-1].Len = max(out[n-1].End(), e.End()) - out[n-1].Vaddr
		} else if e.Len > 0 {
			out = append(out, e)
		}
	}
	return out
}

// near reports whether vaddr is in a window.
func (r *refs) near(vaddr uint64) bool {
	if vaddr-r.lo >= r.hi-r.lo {
		return false
	}
	i := sort.Search(len(r.windows), func(i int) bool { return r.windows[i].End() > vaddr })
	return r.windows[i].Vaddr <= vaddr
}

// add adds an address near a site. There are few: duplicates are removed before the slice grows.
func (r *refs) add(to *vaddrs, vaddr uint64) {
	if !r.near(vaddr) {
		return
	}
	if len(*to) == cap(*to) {
		to.normalize()
		*to = slices.Grow(*to, max(maxSites, len(*to)))
	}
	*to = append(*to, vaddr)
}

// branch adds a branch to an address near a site.
func (r *refs) branch(to, from uint64) {
	switch {
	case !r.near(to):
	case len(r.branches) == maxRefs:
		r.c.steps = 0 // no result for the file counts
	default:
		r.branches = append(r.branches, branch{to, from})
	}
}

// to returns the branches that lead into [lo, hi).
func (r *refs) to(lo, hi uint64) []branch {
	from, _ := slices.BinarySearchFunc(r.branches, branch{to: lo}, branch.compare)
	end, _ := slices.BinarySearchFunc(r.branches, branch{to: hi}, branch.compare)
	return r.branches[from:end]
}

// inside reports whether a reference leads into [lo, hi).
func (r *refs) inside(lo, hi uint64) bool {
	return len(r.to(lo, hi)) > 0 || r.named.within(lo, hi) || r.others.within(lo, hi)
}

// words finds words of 8 bytes that are addresses near sites: jump tables and immediates of programs at fixed
// addresses, at any offset, and words that RELR relocates.
func (r *refs) words(b []byte, vaddr uint64, lo, hi int) {
	from, offsets := lo+int(-(vaddr+uint64(lo))%x86.WordSize), 1
	if r.fixed {
		from, offsets = lo, x86.WordSize
	}
	for n := range offsets {
		for _, v := range wordsIn(b, from+n, hi, r.lo, r.hi-1) {
			r.add(&r.named, v)
		}
	}
}

// wordsIn returns each eighth index in b, from an index on and below hi, at which the word of 8 bytes is an address from
// first to last, and the word. Four words are looked at together, which takes a quarter of the time.
func wordsIn(b []byte, from, hi int, first, last uint64) iter.Seq2[int, uint64] {
	return func(yield func(int, uint64) bool) {
		b, span, le := b[:min(hi+x86.WordSize-1, len(b))], last-first, binary.LittleEndian
		const four = 4 * x86.WordSize
		for w := b[min(from, len(b)):]; len(w) >= x86.WordSize; {
			if len(w) >= four && le.Uint64(w)-first > span && le.Uint64(w[8:])-first > span && le.Uint64(w[16:])-first > span && le.Uint64(w[24:])-first > span {
				w = w[four:]
				continue
			}
			if v := le.Uint64(w); v-first <= span && !yield(len(b)-len(w), v) {
				return
			}
			w = w[x86.WordSize:]
		}
	}
}

// code finds the bytes of call, jmp and jcc with a displacement of 4 bytes, of lea, and addresses of 4 bytes, at
// any offset: other bytes rarely point into a window by chance.
func (r *refs) code(b []byte, vaddr uint64, lo, hi int) {
	le := binary.LittleEndian
	for i := lo; i < hi && i+5 <= len(b); i++ {
		if r.fixed {
			if v := uint64(le.Uint32(b[i:])); v-r.lo < r.hi-r.lo {
				r.add(&r.named, v)
			}
		}
		from := vaddr + uint64(i)
		switch op := b[i]; {
		case op == 0xe8 || op == 0xe9:
			r.branch(from+5+elf.Signed(b[i+1:]), from)
		case op&0xf0 == 0x80 && i > 0 && b[i-1] == 0x0f:
			r.branch(from+5+elf.Signed(b[i+1:]), from-1)
		}
		if b[i] == 0x8d && i+6 <= len(b) && b[i+1]&0xc7 == 5 {
			named := from + 6 + elf.Signed(b[i+2:])
			r.add(&r.named, named)
			r.offsets(named, named)
			r.offsets(named, r.last)
			r.offsets(r.last, named)
			r.last = named
		}
	}
}

// offsets adds the targets of a table of offsets of 4 bytes: compilers' tables lead into their own function, but
// one in assembly may lead into another.
func (r *refs) offsets(table, base uint64) {
	var b []byte
	for at := table; at-table < 4*maxTable; at, b = at+4, b[4:] {
		if len(b) < 4 {
			b = r.c.mem(at)
		}
		if len(b) < 4 || !r.c.entry(1) {
			return
		}
		to := base + elf.Signed(b)
		if !r.c.f.ExecLoad(to) {
			return
		}
		r.add(&r.others, to)
	}
}

// rel8 finds short branches into the window. Their opcodes are common bytes, so those within other known
// instructions do not count.
func (r *refs) rel8(w Extent) {
	var near []*body
	for at := w.Vaddr - rel8Reach; at < w.End()+rel8Reach; at++ {
		if b := r.c.holder(at); b != nil && !slices.Contains(near, b) {
			near = append(near, b)
		}
	}
	for at := w.Vaddr - rel8Reach; at < w.End()+rel8Reach; at++ {
		b := r.c.bytes(at)
		if len(b) < 2 || b[0]&0xf0 != 0x70 && b[0] != 0xeb && b[0]&0xfc != 0xe0 {
			continue
		}
		if !slices.ContainsFunc(near, func(k *body) bool { return k.lens[at] == 0 && k.runsOver(at) }) {
			r.branch(at+2+uint64(int64(int8(b[1]))), at)
		}
	}
}
