// The starts of functions that neither a symbol nor an unwind table has.

package find

import (
	"cmp"
	"maps"
	"slices"

	"vfix.dev/vfix/rewriter/elf"
	"vfix.dev/vfix/rewriter/x86"
)

// locate finds the functions around the sites by any evidence of their starts, their parts elsewhere, and
// references to the sites.
func (c *code) locate(sites []Site) {
	all := slices.Clone(sites)
	for round := 0; ; round++ {
		c.use(findFunctions(c.f, all))
		if round == 0 {
			c.refs = findRefs(c, sites)
		}
		n := len(all)
		for _, at := range c.parts(sites) {
			if !near(all[:n], at) {
				all = append(all, Site{Vaddr: at})
			}
		}
		if len(all) == n || round == maxRounds {
			break
		}
		sortSites(all)
	}
	for _, find := range [...]func([]Site) []uint64{c.callees, c.descend, c.untyped, c.unnamed} {
		left := c.unreached(sites)
		if len(left) == 0 {
			break
		}
		for _, at := range find(left) {
			if near(sites, at) {
				c.fn.starts = append(c.fn.starts, at)
			}
		}
		c.fn.starts.normalize()
		c.use(c.fn)
	}
	c.refs.complete(sites)
}

// maxRounds is how often parts of functions are searched for from parts found before.
const maxRounds = 3

// parts returns addresses outside of the functions around the sites that belong to them: their continuations and,
// for a split part, the code that jumps to it.
func (c *code) parts(sites []Site) (all []uint64) {
	for i := range sites {
		b := c.holder(sites[i].Vaddr)
		if b == nil {
			continue
		}
		all = append(all, b.away...)
		if c.split(b) {
			for _, j := range c.refs.to(b.Start, b.End) {
				all = append(all, j.from)
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// split reports whether b is known to be a part that a compiler split off a function.
func (c *code) split(b *body) bool { return b.End != 0 && !c.fn.entered[b.Start] }

// whole returns the function from which a compiler split off b and that reaches vaddr; b itself if it is not
// known.
func (c *code) whole(b *body, vaddr uint64) *body {
	if b == nil || !c.split(b) {
		return b
	}
	for _, j := range c.refs.to(b.Start, b.End) {
		if d, ok := c.fn.around(j.from); ok && c.fn.entered[d.Start] && !b.Holds(j.from) {
			if w := c.bodyOf(d); w.lens[j.from] != 0 && w.lens[vaddr] != 0 {
				return w
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

// maxCallees is how many called addresses before a site are tried.
const maxCallees = 16

// callees finds functions without names: the targets of calls and jumps in known code are starts. It returns those
// whose code reaches a site.
func (c *code) callees(sites []Site) []uint64 {
	before := make([]vaddrs, len(sites)) // the nearest first
	var targets []uint64
	for i := range sites {
		v := sites[i].Vaddr
		in := c.refs.to(v-min(maxFunction, v), v+1)
		for n := len(in) - 1; n >= 0 && len(before[i]) < maxCallees; n-- {
			if n == len(in)-1 || in[n].to != in[n+1].to {
				before[i] = append(before[i], in[n].to)
			}
		}
		targets = append(targets, before[i]...)
	}
	called := c.called(targets)
	var found []uint64
	for i := range sites {
		for _, at := range before[i] {
			if called(at) && c.bodyOf(c.fn.at(at)).lens[sites[i].Vaddr] != 0 {
				found = append(found, at)
				break
			}
		}
	}
	return found
}

// called returns a function that reports whether a known instruction calls or jumps to one of the targets.
// It searches the functions of the file once for all of them.
func (c *code) called(targets []uint64) func(at uint64) bool {
	callers := func(at uint64) []branch {
		all := c.refs.to(at, at+1)
		return all[:min(len(all), maxBranches)]
	}
	blocks := make(map[uint64]bool) // those with callers: functions near the start of one have all of its callers
	for _, at := range targets {
		for _, j := range callers(at) {
			blocks[j.from/nearSite*nearSite] = true
		}
	}
	var sites []Site
	for _, block := range slices.Sorted(maps.Keys(blocks)) {
		sites = append(sites, Site{Vaddr: block})
	}
	known := make(map[uint64]bool)
	if len(sites) == 0 {
		return func(uint64) bool { return false }
	}
	fn := findFunctions(c.f, sites)
	return func(at uint64) bool {
		is, seen := known[at]
		if !seen {
			is = slices.ContainsFunc(callers(at), func(j branch) bool { return c.holderIn(fn, j.from) != nil })
			known[at] = is
		}
		return is
	}
}

// descend follows the whole program from the loader's entries and returns the starts of its functions. Addresses
// in the code of the entry point also count: it passes main and other functions by address.
func (c *code) descend([]Site) []uint64 {
	var found []uint64
	w := addresses(c.fn.roots...)
	w.run(maxSteps, func(at uint64, _ struct{}) bool {
		if c.steps <= maxSteps/4 || !c.f.ExecLoad(at) {
			return c.steps > maxSteps/4
		}
		found = append(found, at)
		b := c.bodyOf(c.fn.at(at))
		next := slices.Concat(b.calls, b.away)
		if at == c.f.Entry {
			next = slices.Concat(next, b.bases, b.labels)
		}
		for _, to := range next {
			w.add(to, struct{}{})
		}
		return true
	})
	return found
}

// untyped finds functions in assembly: labels that other objects can name, from which all paths are code and one
// leads to a site.
func (c *code) untyped(sites []Site) (found []uint64) {
	for _, at := range c.fn.untyped {
		b := c.bodyOf(c.fn.at(at))
		if b.damaged == "" && slices.ContainsFunc(sites, func(s Site) bool { return b.lens[s.Vaddr] != 0 }) {
			found = append(found, at)
		}
	}
	return found
}

// unnamed finds functions that fill the whole range between two known ones, without a reference in the file: dead
// code of static libraries. Each must be code to its last byte, jump only to known functions, and restore the
// stack. If it were data, nothing could find it.
func (c *code) unnamed(sites []Site) (found []uint64) {
	gaps := make([]Extent, len(sites)) // of length 0 for a site without a gap
	for i := range sites {
		gaps[i] = c.fn.gap(sites[i].Vaddr)
	}
	for i, gap := range gaps {
		v := sites[i].Vaddr
		if gap.Len == 0 || c.refs.named.within(gap.Vaddr, v+uint64(sites[i].Len)) {
			continue
		}
		for at := c.padding(gap.Vaddr, gap.End()); at <= v; {
			b := c.bodyOf(elf.Func{Start: at, End: gap.End()})
			end, whole := b.whole(c)
			if !whole {
				break
			}
			c.fn.extents[at] = elf.Func{Start: at, End: end}
			found = append(found, at)
			at = c.padding(end, gap.End())
		}
	}
	return found
}

// padding returns the first address from vaddr on with the alignment of functions, if only padding precedes it,
// else end.
func (c *code) padding(vaddr, end uint64) uint64 {
	const align = 16
	for vaddr < end && vaddr%align != 0 {
		n := x86.Padding(c.bytes(vaddr))
		if n == 0 {
			return end
		}
		vaddr += uint64(n)
	}
	return min(vaddr, end)
}

// whole reports whether b is a function without gaps, and returns its end.
func (b *body) whole(c *code) (end uint64, ok bool) {
	fr := c.frame(b)
	if fr == nil || len(b.jumps) > 0 {
		return 0, false
	}
	end = b.Start
	for n := 0; n < len(b.lens); n++ {
		l := b.lens[end]
		i, _ := c.at(end)
		if l == 0 || i.Flow == x86.FlowRet && (!fr[end].HasSP || fr[end].SP != 0) {
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
