// The functions near the sites of a file. Others are not kept, so memory does not grow with the symbol table.

package find

import (
	"cmp"
	"iter"
	"sort"
	"strings"

	"vfix.dev/vfix/rewriter/elf"
	"vfix.dev/vfix/rewriter/origin"
)

// nearSite is the distance from a site within which function starts are collected, in bytes.
const nearSite = maxFunction

// functions has the facts from symbols, unwind tables and headers about the functions near sites.
type functions struct {
	sites   []Site // in vaddr order
	starts  vaddrs
	extents map[uint64]elf.Func // of the starts with a known end
	entered map[uint64]bool     // starts of functions, not of split parts
	ifuncs  map[uint64]bool     // starts of STT_GNU_IFUNC resolvers, and of IRELATIVE ones
	public  map[uint64]bool     // starts of functions of libc.so.6 that other objects call by name
	names   map[uint64]name     // of sites
	labels  []uint64            // values of all symbols
	untyped []uint64            // labels in code that other objects can name
	roots   []uint64            // entries of the loader, near a site or not
}

// findFunctions collects the facts about the functions around sites, which are in vaddr order.
func findFunctions(f *File, sites []Site) *functions {
	fn := &functions{
		sites: sites, extents: make(map[uint64]elf.Func), entered: make(map[uint64]bool),
		ifuncs: make(map[uint64]bool), public: make(map[uint64]bool), names: make(map[uint64]name),
	}
	for _, t := range f.Symtabs() {
		f.EachSymbol(t, func(s elf.Symbol) { fn.symbol(f, t, s) })
	}
	fn.fromGo(origin.GoFunctions(f.File))
	f.EachFDE(func(start uint64) bool { return near(sites, start) }, func(d elf.Func) {
		if fn.start(d.Start) && d.End != 0 {
			d.End = max(d.End, fn.extents[d.Start].End)
			fn.extents[d.Start] = d
		}
	})
	f.EachRela(func(r elf.Rela) {
		if r.Type == elf.RIrelative && fn.enter(r.Addend) {
			fn.ifuncs[r.Addend] = true
		}
	})
	fn.roots = f.entries()
	for _, v := range fn.roots {
		fn.enter(v)
	}
	fn.starts.normalize()
	return fn
}

// near reports whether vaddr is within nearSite of a site.
func near(sites []Site, vaddr uint64) bool {
	i := sort.Search(len(sites), func(i int) bool { return sites[i].Vaddr+nearSite >= vaddr })
	return i < len(sites) && sites[i].Vaddr <= vaddr+nearSite
}

// start adds the start of a function, or of a part of one, if it is near a site.
func (fn *functions) start(vaddr uint64) bool {
	if !near(fn.sites, vaddr) || len(fn.starts) >= elf.MaxStarts {
		return false
	}
	fn.starts = append(fn.starts, vaddr)
	return true
}

// enter is start for a function that is not a part of another.
func (fn *functions) enter(vaddr uint64) bool {
	ok := fn.start(vaddr)
	if ok {
		fn.entered[vaddr] = true
	}
	return ok
}

// fromGo adds the functions of a Go program's own table, which strip leaves.
func (fn *functions) fromGo(all []origin.GoFunction) {
	for _, g := range all {
		if !fn.enter(g.Start) || g.End == 0 {
			continue
		}
		if fn.extents[g.Start].End == 0 {
			fn.extents[g.Start] = g.Func
		}
		fn.call(name{text: g.Name, start: g.Start}, g.End-g.Start)
	}
}

// symbol adds one symbol.
func (fn *functions) symbol(f *File, t elf.Symtab, s elf.Symbol) {
	if near(fn.sites, s.Value) && len(fn.labels) < elf.MaxStarts {
		fn.labels = append(fn.labels, s.Value)
	}
	global := s.Bind != elf.STBLocal
	switch s.Type {
	case elf.STTNotype:
		if t.Dynamic && global && near(fn.sites, s.Value) && f.ExecLoad(s.Value) && len(fn.untyped) < elf.MaxStarts {
			fn.untyped = append(fn.untyped, s.Value)
		}
		return
	case elf.STTObject:
		if f.ExecLoad(s.Value) {
			return
		}
	default:
		if !fn.start(s.Value) {
			return
		}
		fn.function(f, t, s, global)
	}
	if n := fn.siteFrom(s.Value); n == len(fn.sites) || fn.sites[n].Vaddr-s.Value >= s.Size {
		return
	}
	text := f.SymbolName(t, s)
	if t.Dynamic && global && publicNames[text] && f.Soname() == "libc.so.6" {
		fn.public[s.Value] = true
	}
	fn.call(name{text: text, start: s.Value, rank: rankName(text, global)}, s.Size)
}

// function adds the symbol of a function.
func (fn *functions) function(f *File, t elf.Symtab, s elf.Symbol, global bool) {
	if s.Type == elf.STTGNUIfunc {
		fn.ifuncs[s.Value] = true
	}
	if end := s.Value + s.Size; s.Size != 0 && end > s.Value && end <= elf.MaxVaddr {
		fn.extents[s.Value] = elf.Func{Start: s.Value, End: max(end, fn.extents[s.Value].End)}
	}
	if global || f.ExecLoad(s.Value) && !strings.Contains(f.SymbolName(t, s), ".") { // no f.cold, no f.part.0
		fn.entered[s.Value] = true
	}
}

// siteFrom returns the index of the first site that is not before vaddr.
func (fn *functions) siteFrom(vaddr uint64) int {
	return sort.Search(len(fn.sites), func(i int) bool { return fn.sites[i].Vaddr >= vaddr })
}

// name is the best name for one site.
type name struct {
	text  string
	start uint64
	rank  int
}

// call sets the name of the sites in the size bytes from its start.
func (fn *functions) call(n name, size uint64) {
	for i := fn.siteFrom(n.start); i < len(fn.sites) && fn.sites[i].Vaddr-n.start < size; i++ {
		if best, ok := fn.names[fn.sites[i].Vaddr]; !ok || n.better(best) {
			fn.names[fn.sites[i].Vaddr] = n
		}
	}
}

// publicNames are the functions of glibc that call the page and that other objects call.
var publicNames = map[string]bool{"time": true, "gettimeofday": true, "__gettimeofday": true, "sched_getcpu": true}

// rankName prefers names that programmers use.
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

// better reports whether n is a better name of a site than m: that of the innermost function.
func (n name) better(m name) bool {
	return cmp.Or(cmp.Compare(n.start, m.start), cmp.Compare(n.rank, m.rank), cmp.Compare(len(m.text), len(n.text)), cmp.Compare(m.text, n.text)) > 0
}

// at returns the function with a start.
func (fn *functions) at(start uint64) elf.Func {
	if d, ok := fn.extents[start]; ok {
		return d
	}
	return elf.Func{Start: start}
}

// maxHolders is the number of function starts before an address that are tried.
const maxHolders = 8

// before returns the functions, and split parts, that begin at vaddr or before it, nearest first.
func (fn *functions) before(vaddr uint64) iter.Seq[elf.Func] {
	return func(yield func(elf.Func) bool) {
		n := fn.starts.upTo(vaddr)
		for i := n - 1; i >= max(0, n-maxHolders) && yield(fn.at(fn.starts[i])); i-- {
		}
	}
}

// around returns the innermost function, or split part of one, whose known extent has vaddr.
func (fn *functions) around(vaddr uint64) (elf.Func, bool) {
	for d := range fn.before(vaddr) {
		if d.End > vaddr {
			return d, true
		}
	}
	return elf.Func{}, false
}

// gap returns the range around vaddr between two functions with known extents.
func (fn *functions) gap(vaddr uint64) Extent {
	from, next := uint64(0), fn.starts.upTo(vaddr)
	for d := range fn.before(vaddr) {
		from = max(from, d.End)
	}
	if next == len(fn.starts) || from == 0 || from > vaddr {
		return Extent{}
	}
	return Extent{from, fn.starts[next] - from}
}

// isIfunc reports whether vaddr is in the resolver of an IFUNC symbol: whether the code from the nearest resolver
// before it reaches it.
func (fn *functions) isIfunc(c *code, vaddr uint64) bool {
	start, ok := fn.starts.enclosing(vaddr)
	return ok && fn.ifuncs[start] && c.bodyOf(fn.at(start)).lens[vaddr] != 0
}

// holder returns the code of the function that reaches vaddr, nil if none does: of the functions before it the
// nearest one, first those with known ends.
func (c *code) holder(vaddr uint64) *body { return c.holderIn(c.fn, vaddr) }

func (c *code) holderIn(fn *functions, vaddr uint64) *body {
	for _, sized := range [...]bool{true, false} {
		for d := range fn.before(vaddr) {
			if vaddr-d.Start > maxFunction {
				break
			}
			if (d.End != 0) != sized || !d.Holds(vaddr) {
				continue
			}
			if b := c.bodyOf(d); b.lens[vaddr] != 0 {
				return b
			}
			if sized {
				break // an outer function's paths do not run through an inner one's
			}
		}
	}
	return nil
}
