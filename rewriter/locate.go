// Where functions begin that neither a symbol nor an unwind table names.

package rewriter

import (
	"cmp"
	"maps"
	"slices"

	"golang.org/x/arch/x86/x86asm"

	"vfix.dev/vfix/rewriter/elf"
	"vfix.dev/vfix/rewriter/x86"
)

// locate finds the functions around the sites, by whatever tells where they begin.
func (c *code) locate(sites []Site) (*functions, error) {
	fn, err := findFunctions(c.f, sites)
	if err != nil {
		return nil, err
	}
	c.starts = fn.starts
	if more := c.parts(fn, sites); len(more) > 0 {
		all := append(slices.Clone(sites), more...)
		sortSites(all)
		if fn, err = findFunctions(c.f, all); err != nil {
			return nil, err
		}
		for _, s := range more { // where a function goes on, code is, whatever names it
			fn.starts = append(fn.starts, s.Vaddr)
		}
		fn.starts.normalize()
		c.starts = fn.starts
	}
	for _, find := range [...]func([]Site) ([]uint64, error){
		func(left []Site) ([]uint64, error) { return c.callees(fn, left) },
		func([]Site) ([]uint64, error) { return c.descend(fn), nil },
		func(left []Site) ([]uint64, error) { return c.unnamed(fn, left) },
	} {
		left := c.unreached(fn, sites)
		if len(left) == 0 {
			break
		}
		found, err := find(left)
		if err != nil {
			return nil, err
		}
		for _, at := range found {
			if near(sites, at) {
				fn.starts = append(fn.starts, at)
			}
		}
		fn.starts.normalize()
		c.starts = fn.starts
	}
	return fn, nil
}

// parts returns addresses outside of the functions near the sites that matter to them: where
// they go on.
func (c *code) parts(fn *functions, sites []Site) []Site {
	var more []Site
	for i := range sites {
		if b := c.holder(fn, sites[i].Vaddr); b != nil {
			for _, to := range b.away {
				more = append(more, Site{Vaddr: to, Len: 1})
			}
		}
	}
	return more
}

// unreached returns the sites that no known function reaches.
func (c *code) unreached(fn *functions, sites []Site) []Site {
	var left []Site
	for _, s := range sites {
		if s.Kind != DataWord && c.holder(fn, s.Vaddr) == nil {
			left = append(left, s)
		}
	}
	return left
}

const (
	// maxCallees is how many addresses that something calls are tried before a site, maxCallers
	// how many calls of each.
	maxCallees = 16
	maxCallers = 4096
)

// callees looks for functions that nothing names: what is called from code that is known, or
// jumped to, begins one. It returns those whose code reaches a site.
func (c *code) callees(fn *functions, sites []Site) ([]uint64, error) {
	t := &targets{called: make(map[uint64][]uint64)}
	for _, s := range sites {
		t.windows = append(t.windows, Extent{s.Vaddr - min(maxFunction, s.Vaddr), min(maxFunction, s.Vaddr) + 1})
	}
	if err := t.read(c.f); err != nil {
		return nil, err
	}
	for _, j := range t.jumps {
		t.called[j.to] = append(t.called[j.to], j.from)
	}
	all := slices.Sorted(maps.Keys(t.called))
	var found []uint64
	for i := range sites {
		n, _ := slices.BinarySearch(all, sites[i].Vaddr+1)
		for _, at := range slices.Backward(all[max(0, n-maxCallees):n]) {
			if !c.holds(at) || !c.calledFrom(t.called[at]) {
				continue
			}
			if b := c.bodyOf(fn.at(at)); b.lens[sites[i].Vaddr] != 0 {
				found = append(found, at)
				break
			}
		}
	}
	return found, nil
}

// calledFrom reports whether one of the addresses is known to be an instruction.
func (c *code) calledFrom(from []uint64) bool {
	callers := make([]Site, 0, len(from))
	for _, at := range from[:min(len(from), maxCallers)] {
		callers = append(callers, Site{Vaddr: at, Len: 1})
	}
	sortSites(callers)
	fn, err := findFunctions(c.f, callers)
	return err == nil && slices.ContainsFunc(callers, func(s Site) bool { return c.holder(fn, s.Vaddr) != nil })
}

// descend follows the whole program from what the loader enters and returns the starts of the
// functions it finds. What the entry point names in its code counts too: it passes main and its
// companions on by address.
func (c *code) descend(fn *functions) []uint64 {
	seen := map[uint64]bool{}
	work := append([]uint64(nil), fn.roots...)
	var found []uint64
	for len(work) > 0 && c.steps > maxSteps/4 {
		at := work[len(work)-1]
		work = work[:len(work)-1]
		if seen[at] || !c.holds(at) {
			continue
		}
		seen[at] = true
		found = append(found, at)
		b := c.bodyOf(fn.at(at))
		work = append(append(work, b.calls...), b.away...)
		if at == c.f.Entry {
			work = append(append(work, b.bases...), b.labels...)
		}
	}
	return found
}

// unnamed looks for functions that fill the whole stretch between two known ones, and to which
// nothing in the file points: dead code of static libraries. Each must be code to its last byte,
// jump nowhere else than to known functions, and leave the stack as it was. Were it data, nothing
// could find it.
func (c *code) unnamed(fn *functions, sites []Site) ([]uint64, error) {
	var found []uint64
	for i := range sites {
		v := sites[i].Vaddr
		gap, ok := fn.gap(v)
		if !ok {
			continue
		}
		t := &targets{called: make(map[uint64][]uint64), fixed: c.f.Type == elf.TypeExec, windows: []Extent{gap}}
		if err := t.read(c.f); err != nil {
			return nil, err
		}
		if slices.ContainsFunc(t.taken, func(at uint64) bool { return at < v+uint64(sites[i].Len) }) {
			continue
		}
		for at := c.padding(gap.Vaddr, gap.end()); at <= v; {
			b := c.bodyOf(elf.Func{Start: at, End: gap.end()})
			end, whole := b.whole(c, fn)
			if !whole {
				break
			}
			fn.extents[at] = elf.Func{Start: at, End: end}
			b.End = end
			found = append(found, at)
			at = c.padding(end, gap.end())
		}
	}
	return found, nil
}

// padding returns the first address from vaddr on that is aligned as functions are, where
// nothing but padding stands before it, else end.
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

// whole reports whether b is a function without a gap in it, and where it ends.
func (b *body) whole(c *code, fn *functions) (end uint64, ok bool) {
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
		if !fn.starts.has(to) {
			return 0, false
		}
	}
	return end, true
}

func sortSites(all []Site) {
	slices.SortFunc(all, func(a, b Site) int { return cmp.Compare(a.Vaddr, b.Vaddr) })
}
