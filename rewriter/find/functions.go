// The functions near the sites of a file. Others are not kept, so memory does not grow with the symbol table.

package find

import (
	"cmp"
	"sort"
	"strings"

	"vfix.dev/vfix/rewriter/elf"
)

// nearSite is the distance from a site within which function starts are collected, in bytes.
const nearSite = maxFunction

// functions has the facts from symbols, unwind tables and headers about the functions near sites.
type functions struct {
	sites  []Site // in vaddr order
	starts vaddrs
	ifuncs map[uint64]bool   // starts of STT_GNU_IFUNC resolvers, and of IRELATIVE ones
	public map[uint64]bool   // starts of functions of libc.so.6 that other objects call by name
	fdes   map[uint64]uint64 // offsets of frame descriptions, by start
	names  map[uint64]name   // of sites
}

// findFunctions collects the facts about the functions around sites, which are in vaddr order.
func findFunctions(f *File, sites []Site) *functions {
	fn := &functions{
		sites: sites, ifuncs: make(map[uint64]bool), public: make(map[uint64]bool), names: make(map[uint64]name), fdes: make(map[uint64]uint64),
	}
	for _, t := range f.Symtabs() {
		f.EachSymbol(t, func(s elf.Symbol) { fn.symbol(f, t, s) })
	}
	f.EachFDE(func(start uint64) bool { return near(sites, start) }, func(start, fde uint64) {
		if fn.start(start) {
			fn.fdes[start] = fde
		}
	})
	f.EachRela(func(r elf.Rela) {
		if r.Type == elf.RIrelative && fn.start(r.Addend) {
			fn.ifuncs[r.Addend] = true
		}
	})
	fn.start(f.Entry)
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

// symbol adds one symbol.
func (fn *functions) symbol(f *File, t elf.Symtab, s elf.Symbol) {
	switch {
	case s.Type == elf.STTNotype || s.Type == elf.STTObject && f.ExecLoad(s.Value):
		return
	case s.Type == elf.STTObject:
	case !fn.start(s.Value):
		return
	case s.Type == elf.STTGNUIfunc:
		fn.ifuncs[s.Value] = true
	}
	if n := fn.siteFrom(s.Value); n == len(fn.sites) || fn.sites[n].Vaddr-s.Value >= s.Size {
		return // its name is not read
	}
	text, global := f.SymbolName(t, s), s.Bind != elf.STBLocal
	if t.Dynamic && publicNames[text] && f.Soname() == "libc.so.6" {
		fn.public[s.Value] = true
	}
	fn.call(name{text: text, start: s.Value, rank: rankName(text, global)}, s.Size)
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
		if at := fn.sites[i].Vaddr; n.better(fn.names[at]) {
			fn.names[at] = n
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
