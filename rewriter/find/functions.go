// The functions near the sites of a file. Only what lies near a site is kept, so that memory does
// not grow with the symbol table.

package find

import (
	"sort"
	"strings"

	"vfix.dev/vfix/rewriter/elf"
	"vfix.dev/vfix/rewriter/origin"
)

// nearSite is how far from a site function starts are collected, in bytes.
const nearSite = maxFunction

// functions is what the symbols, the unwind tables and the headers say about the functions
// near sites.
type functions struct {
	starts  starts
	extents map[uint64]elf.Func // of those starts whose end is known
	entered map[uint64]bool     // starts that are a function's, not a split part's
	ifuncs  map[uint64]bool     // starts of STT_GNU_IFUNC resolvers, and of IRELATIVE ones
	public  map[uint64]bool     // starts of functions of libc.so.6 that other objects call by name
	names   map[uint64]name     // of sites
	labels  []uint64            // values of all symbols
	roots   []uint64            // what the loader enters, near a site or not
}

// name is the best name found for one site.
type name struct {
	text  string
	start uint64
	rank  int
}

// findFunctions collects what is known about the functions around sites, which are in
// vaddr order.
func findFunctions(f *File, sites []Site) (*functions, error) {
	fn := &functions{
		extents: make(map[uint64]elf.Func), entered: make(map[uint64]bool),
		ifuncs: make(map[uint64]bool), public: make(map[uint64]bool), names: make(map[uint64]name),
	}
	for _, t := range f.Symtabs() {
		err := f.EachSymbol(t, func(s elf.Symbol) { fn.symbol(f, t, s, sites) })
		if err != nil {
			return nil, err
		}
	}
	if err := fn.fromGo(f, sites); err != nil {
		return nil, err
	}
	nearby := func(start uint64) bool { return near(sites, start) }
	if err := f.EachFDE(nearby, func(d elf.Func) {
		if fn.start(d.Start, sites) && d.End != 0 {
			d.End = max(d.End, fn.extents[d.Start].End)
			fn.extents[d.Start] = d
		}
	}); err != nil {
		return nil, err
	}
	if err := f.EachRela(func(r elf.Rela) {
		if r.Type == elf.RIrelative && fn.start(r.Addend, sites) {
			fn.ifuncs[r.Addend], fn.entered[r.Addend] = true, true
		}
	}); err != nil {
		return nil, err
	}
	fn.roots = f.entries()
	for _, v := range fn.roots {
		if fn.start(v, sites) {
			fn.entered[v] = true
		}
	}
	fn.starts.normalize()
	return fn, nil
}

// fromGo takes in the functions that a Go program has in a table of its own, stripped or not.
func (fn *functions) fromGo(f *File, sites []Site) error {
	all, err := origin.GoFunctions(f.File)
	for _, g := range all {
		if !fn.start(g.Start, sites) {
			continue
		}
		fn.entered[g.Start] = true
		if fn.extents[g.Start].End == 0 && g.End != 0 {
			fn.extents[g.Start] = g.Func
		}
		for i := range sites {
			if n := (name{text: g.Name, start: g.Start}); g.Holds(sites[i].Vaddr) && g.End != 0 && n.better(fn.names[sites[i].Vaddr]) {
				fn.names[sites[i].Vaddr] = n
			}
		}
	}
	return err
}

// at returns the function that begins at start.
func (fn *functions) at(start uint64) elf.Func {
	if d, ok := fn.extents[start]; ok {
		return d
	}
	return elf.Func{Start: start}
}

// around returns the function, or the split part of one, that is known to hold vaddr: the innermost.
func (fn *functions) around(vaddr uint64) (elf.Func, bool) {
	i := sort.Search(len(fn.starts), func(i int) bool { return fn.starts[i] > vaddr })
	for n := i - 1; n >= 0 && n >= i-maxHolders; n-- {
		if d, ok := fn.extents[fn.starts[n]]; ok && d.End > vaddr {
			return d, true
		}
	}
	return elf.Func{}, false
}

// near reports whether vaddr is within nearSite of a site.
func near(sites []Site, vaddr uint64) bool {
	i := sort.Search(len(sites), func(i int) bool { return sites[i].Vaddr+nearSite >= vaddr })
	return i < len(sites) && sites[i].Vaddr <= vaddr+nearSite
}

// start keeps a function start if it is near a site.
func (fn *functions) start(vaddr uint64, sites []Site) bool {
	if !near(sites, vaddr) || len(fn.starts) >= elf.MaxStarts {
		return false
	}
	fn.starts = append(fn.starts, vaddr)
	return true
}

// symbol takes in one symbol.
func (fn *functions) symbol(f *File, t elf.Symtab, s elf.Symbol, sites []Site) {
	if near(sites, s.Value) && len(fn.labels) < elf.MaxStarts {
		fn.labels = append(fn.labels, s.Value)
	}
	if s.Type == elf.STTNotype || !fn.start(s.Value, sites) {
		return
	}
	if s.Type == elf.STTGNUIfunc {
		fn.ifuncs[s.Value] = true
	}
	if end := s.Value + s.Size; s.Size != 0 && end > s.Value && end <= elf.MaxVaddr {
		fn.extents[s.Value] = elf.Func{Start: s.Value, End: max(end, fn.extents[s.Value].End)}
	}
	global := s.Bind != elf.STBLocal
	if global || f.ExecLoad(s.Value) && !strings.Contains(f.SymbolName(t, s), ".") { // no f.cold, no f.part.0
		fn.entered[s.Value] = true
	}
	i := sort.Search(len(sites), func(i int) bool { return sites[i].Vaddr >= s.Value })
	covers := i < len(sites) && sites[i].Vaddr-s.Value < s.Size
	if !covers {
		return
	}
	text := f.SymbolName(t, s)
	if t.Dynamic && global && publicNames[text] && f.Soname() == "libc.so.6" {
		fn.public[s.Value] = true
	}
	n := name{text: text, start: s.Value, rank: rankName(text, global)}
	for ; i < len(sites) && sites[i].Vaddr-s.Value < s.Size; i++ {
		if best, ok := fn.names[sites[i].Vaddr]; !ok || n.better(best) {
			fn.names[sites[i].Vaddr] = n
		}
	}
}

// publicNames are the functions of glibc that call the page and that other objects call.
var publicNames = map[string]bool{"time": true, "gettimeofday": true, "__gettimeofday": true, "sched_getcpu": true}

// rankName prefers names that a programmer knows.
func rankName(text string, global bool) int {
	switch {
	case text == "":
		return 0
	case !global:
		return 1
	case strings.HasPrefix(text, "_"):
		return 2
	}
	return 3
}

// better reports whether n names a site better than m does: the innermost function first.
func (n name) better(m name) bool {
	if n.start != m.start {
		return n.start > m.start
	}
	if n.rank != m.rank {
		return n.rank > m.rank
	}
	if len(n.text) != len(m.text) {
		return len(n.text) < len(m.text)
	}
	return n.text < m.text
}

// isIfunc reports whether vaddr is in the resolver of an IFUNC symbol: whether the code
// that begins at the nearest resolver before it gets there.
func (fn *functions) isIfunc(c *code, vaddr uint64) bool {
	start, ok := fn.starts.enclosing(vaddr)
	return ok && fn.ifuncs[start] && c.reaches(start, vaddr)
}

// gap returns the stretch around vaddr between two functions whose extents are known.
func (fn *functions) gap(vaddr uint64) (Extent, bool) {
	i := sort.Search(len(fn.starts), func(i int) bool { return fn.starts[i] > vaddr })
	if i == 0 || i == len(fn.starts) {
		return Extent{}, false
	}
	from := uint64(0)
	for n := i - 1; n >= 0 && n >= i-maxHolders; n-- {
		from = max(from, fn.extents[fn.starts[n]].End)
	}
	if from == 0 || from > vaddr {
		return Extent{}, false
	}
	return Extent{from, fn.starts[i] - from}, true
}
