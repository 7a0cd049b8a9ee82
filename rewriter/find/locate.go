// Where functions begin that neither a symbol nor an unwind table names.

package find

import (
	"cmp"
	"maps"
	"slices"

	"golang.org/x/arch/x86/x86asm"

	"vfix.dev/vfix/rewriter/elf"
	"vfix.dev/vfix/rewriter/x86"
)

// locate finds the functions around the sites, by whatever shows their beginnings, and the parts of
// them that are elsewhere.
func (c *code) locate(sites []Site) error {
	all := slices.Clone(sites)
	for round := 0; ; round++ {
		fn, err := findFunctions(c.f, all)
		if err != nil {
			return err
		}
		c.use(fn)
		parts, err := c.parts(sites)
		if err != nil {
			return err
		}
		n := len(all)
		for _, at := range parts {
			if !near(all[:n], at) {
				all = append(all, Site{Vaddr: at, Len: 1})
			}
		}
		if len(all) == n || round == maxRounds {
			break
		}
		sortSites(all)
	}
	for _, find := range [...]func([]Site) ([]uint64, error){c.callees, c.descend, c.unnamed} {
		left := c.unreached(sites)
		if len(left) == 0 {
			break
		}
		found, err := find(left)
		if err != nil {
			return err
		}
		for _, at := range found {
			if near(sites, at) {
				c.fn.starts = append(c.fn.starts, at)
			}
		}
		c.fn.starts.normalize()
		c.use(c.fn)
	}
	return nil
}

// maxRounds is how often the parts of functions are looked for from parts found before.
const maxRounds = 3

// parts returns addresses outside of the functions around the sites that belong to them: their
// continuations, and what jumps to those that nothing is known to call.
func (c *code) parts(sites []Site) ([]uint64, error) {
	var all []uint64
	var split []Extent
	for i := range sites {
		b := c.holder(sites[i].Vaddr)
		if b == nil {
			continue
		}
		all = append(all, b.away...)
		if !c.fn.entered[b.Start] && b.End != 0 {
			split = append(split, Extent{b.Start, b.End - b.Start})
		}
	}
	t, err := c.targets(split, false)
	if err != nil {
		return nil, err
	}
	for _, from := range t.from {
		all = append(all, from...)
	}
	c.jumps = t.from
	slices.Sort(all)
	return slices.Compact(all), nil
}

// whole returns the function of which b is a part that a compiler split off and that reaches vaddr;
// b itself if none is known.
func (c *code) whole(b *body, vaddr uint64) *body {
	if b == nil || b.End == 0 || c.fn.entered[b.Start] {
		return b
	}
	for _, to := range slices.Sorted(maps.Keys(c.jumps)) {
		if !b.Holds(to) {
			continue
		}
		for _, at := range c.jumps[to] {
			if d, ok := c.fn.around(at); ok && c.fn.entered[d.Start] && !b.Holds(at) {
				if w := c.bodyOf(d); w.lens[at] != 0 && w.lens[vaddr] != 0 {
					return w
				}
			}
		}
	}
	return b
}

// unreached returns the sites that no known function reaches.
func (c *code) unreached(sites []Site) []Site {
	var left []Site
	for _, s := range sites {
		if s.Kind != DataWord && c.holder(s.Vaddr) == nil {
			left = append(left, s)
		}
	}
	return left
}

const (
	// maxCallees is how many addresses that something calls are tried before a site.
	maxCallees = 16
)

// callees looks for functions that nothing names: what is called from code that is known, or
// jumped to, begins one. It returns those whose code reaches a site.
func (c *code) callees(sites []Site) ([]uint64, error) {
	var windows []Extent
	for _, s := range sites {
		windows = append(windows, Extent{s.Vaddr - min(maxFunction, s.Vaddr), min(maxFunction, s.Vaddr) + 1})
	}
	t, err := c.targets(windows, false)
	if err != nil {
		return nil, err
	}
	all := slices.Sorted(maps.Keys(t.from))
	before := func(s *Site) []uint64 {
		n, _ := slices.BinarySearch(all, s.Vaddr+1)
		return all[max(0, n-maxCallees):n]
	}
	var asked []uint64
	for i := range sites {
		asked = append(asked, before(&sites[i])...)
	}
	called, err := c.called(t, asked)
	if err != nil {
		return nil, err
	}
	var found []uint64
	for i := range sites {
		for _, at := range slices.Backward(before(&sites[i])) {
			if !called(at) {
				continue
			}
			if b := c.bodyOf(c.fn.at(at)); b.lens[sites[i].Vaddr] != 0 {
				found = append(found, at)
				break
			}
		}
	}
	return found, nil
}

// called returns a question about the addresses asked: whether an instruction that is known to be one calls the
// address, or jumps to it. The file is looked through once for all of them.
func (c *code) called(t *targets, asked []uint64) (func(at uint64) bool, error) {
	if len(asked) == 0 {
		return nil, nil
	}
	slices.Sort(asked)
	first := make(map[uint64]uint64) // caller of so many bytes: functions near it are all that hold one of the others
	for _, at := range slices.Compact(asked) {
		for _, from := range t.from[at] {
			block := from / nearSite
			if v, seen := first[block]; !seen || from < v {
				first[block] = from
			}
		}
	}
	var callers []Site
	for _, from := range first {
		callers = append(callers, Site{Vaddr: from, Len: 1})
	}
	sortSites(callers)
	fn, err := findFunctions(c.f, callers)
	known := make(map[uint64]bool)
	return func(at uint64) bool {
		is, seen := known[at]
		if !seen {
			is = c.f.ExecLoad(at) && slices.ContainsFunc(t.from[at], func(v uint64) bool { return c.holderIn(fn, v) != nil })
			known[at] = is
		}
		return is
	}, err
}

// descend follows the whole program from what the loader enters and returns the starts of the
// functions it finds. The addresses in the code of the entry point also count: it passes main and its
// companions on by address.
func (c *code) descend([]Site) ([]uint64, error) {
	seen := map[uint64]bool{}
	work := append([]uint64(nil), c.fn.roots...)
	var found []uint64
	for len(work) > 0 && c.steps > maxSteps/4 {
		at := work[len(work)-1]
		work = work[:len(work)-1]
		if seen[at] || !c.f.ExecLoad(at) {
			continue
		}
		seen[at] = true
		found = append(found, at)
		b := c.bodyOf(c.fn.at(at))
		work = append(append(work, b.calls...), b.away...)
		if at == c.f.Entry {
			work = append(append(work, b.bases...), b.labels...)
		}
	}
	return found, nil
}

// unnamed looks for functions that fill the whole stretch between two known ones, and to which
// nothing in the file points: dead code of static libraries. Each must be code to its last byte,
// jump nowhere else than to known functions, and leave the stack as it was. Were it data, nothing
// could find it.
func (c *code) unnamed(sites []Site) ([]uint64, error) {
	gaps := make([]Extent, len(sites)) // of length 0 for a site without one
	for i := range sites {
		gaps[i], _ = c.fn.gap(sites[i].Vaddr)
	}
	t, err := c.targets(slices.DeleteFunc(slices.Clone(gaps), func(e Extent) bool { return e.Len == 0 }), true)
	if err != nil {
		return nil, err
	}
	slices.Sort(t.taken)
	var found []uint64
	for i, gap := range gaps {
		v := sites[i].Vaddr
		n, _ := slices.BinarySearch(t.taken, gap.Vaddr)
		if gap.Len == 0 || n < len(t.taken) && t.taken[n] < v+uint64(sites[i].Len) {
			continue
		}
		for at := c.padding(gap.Vaddr, gap.End()); at <= v; {
			b := c.bodyOf(elf.Func{Start: at, End: gap.End()})
			end, whole := b.whole(c)
			if !whole {
				break
			}
			c.fn.extents[at] = elf.Func{Start: at, End: end}
			b.End = end
			found = append(found, at)
			at = c.padding(end, gap.End())
		}
	}
	return found, nil
}

// padding returns the first address from vaddr on that is aligned as functions are, if
// nothing but padding is before it, else end.
func (c *code) padding(vaddr, end uint64) uint64 {
	const align = 16
	for vaddr < end && vaddr%align != 0 {
		i, ok := c.at(vaddr)
		switch {
		case ok && (i.Op == x86asm.NOP || i.IsInt3()):
			vaddr = i.Next()
		case c.has(vaddr, 0):
			vaddr++
		default:
			return end
		}
	}
	return min(vaddr, end)
}

// whole reports whether b is a function without a gap in it, and its end.
func (b *body) whole(c *code) (end uint64, ok bool) {
	fr := c.frame(b)
	if fr == nil || len(b.jumps) > 0 {
		return 0, false
	}
	end = b.Start
	for n := 0; n < len(b.lens); n++ {
		l := b.lens[end]
		i, known := c.at(end)
		if l == 0 || !known || i.Flow == x86.FlowRet && (!fr[end].HasSP || fr[end].SP != 0) {
			return 0, false
		}
		end += uint64(l)
	}
	for _, to := range b.away {
		if !c.fn.starts.has(to) {
			return 0, false
		}
	}
	return end, true
}

func sortSites(all []Site) {
	slices.SortFunc(all, func(a, b Site) int { return cmp.Compare(a.Vaddr, b.Vaddr) })
}
