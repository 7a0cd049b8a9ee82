// Symbols and function starts around the sites of a file. Only what lies near a site is
// kept, so that memory does not grow with the symbol table.

package rewriter

import (
	"encoding/binary"
	"sort"
	"strings"
)

const (
	sttNotype   = 0
	sttFunc     = 2
	sttSection  = 3
	sttGNUIfunc = 10
	stbLocal    = 0
	stvDefault  = 0
	stvProt     = 3

	dtHash    = 4
	dtGNUHash = 0x6ffffef5

	// symChunk is how many symbols are read at once.
	symChunk = 4096
	// maxStarts bounds the function starts of one file.
	maxStarts = 1 << 18
	// maxName is the longest symbol name that is shown, in bytes.
	maxName = 200
)

// nearSite is how far from a site function starts are collected, in bytes.
const nearSite = maxFunction

// symtab is where a symbol table and its strings are in the file.
type symtab struct {
	off, count      uint64
	strOff, strSize uint64
	dynamic         bool
}

// symbol is one defined function.
type symbol struct {
	value, size uint64
	name        uint32
	typ, bind   byte
	visibility  byte
}

// symtabs returns .symtab and the dynamic symbol table, as far as they exist.
func (f *elfFile) symtabs() []symtab {
	var tabs []symtab
	for i := range f.sections {
		s := &f.sections[i]
		if s.typ != shtSymtab || uint64(s.link) >= uint64(len(f.sections)) {
			continue
		}
		if str := f.sections[s.link]; str.typ == shtStrtab {
			tabs = append(tabs, symtab{off: s.off, count: s.size / symSize, strOff: str.off, strSize: str.size})
			break
		}
	}
	if t, ok := f.dynamicSymtab(); ok {
		tabs = append(tabs, t)
	}
	return tabs
}

// dynamicSymtab finds the dynamic symbol table as a loader does, through DT_SYMTAB; only
// its length is not said there.
func (f *elfFile) dynamicSymtab() (symtab, bool) {
	sym, str := f.dyn(dtSymtab), f.dyn(dtStrtab)
	if sym == nil || str == nil {
		return symtab{}, false
	}
	off, ok1 := f.offset(sym.val, symSize)
	strOff, ok2 := f.offset(str.val, 1)
	if !ok1 || !ok2 {
		return symtab{}, false
	}
	p := f.load(sym.val)
	room := (p.filesz - (sym.val - p.vaddr)) / symSize
	q := f.load(str.val)
	return symtab{
		off: off, count: min(f.dynamicSymbols(), room),
		strOff: strOff, strSize: q.filesz - (str.val - q.vaddr), dynamic: true,
	}, true
}

// dynamicSymbols returns how many dynamic symbols there are: from DT_HASH, DT_GNU_HASH or
// the section header; 0 where nothing says so.
func (f *elfFile) dynamicSymbols() uint64 {
	if d := f.dyn(dtHash); d != nil {
		if b, err := f.mem(d.val, 8); err == nil && len(b) == 8 {
			return uint64(binary.LittleEndian.Uint32(b[4:])) // nchain
		}
	}
	if d := f.dyn(dtGNUHash); d != nil {
		if n := f.gnuHashSymbols(d.val); n > 0 {
			return n
		}
	}
	for i := range f.sections {
		if f.sections[i].typ == shtDynsym {
			return f.sections[i].size / symSize
		}
	}
	return 0
}

// gnuHashSymbols returns one more than the highest symbol in the DT_GNU_HASH table at
// vaddr: the end of the chain that begins at the highest bucket. The table's layout is in
// binutils' bfd/elflink.c (bfd_elf_size_dynsym_hash_dynstr).
func (f *elfFile) gnuHashSymbols(vaddr uint64) uint64 {
	h, err := f.mem(vaddr, 16)
	if err != nil || len(h) < 16 {
		return 0
	}
	le := binary.LittleEndian
	nbuckets, symoffset, bloom := uint64(le.Uint32(h)), uint64(le.Uint32(h[4:])), uint64(le.Uint32(h[8:]))
	buckets := vaddr + 16 + 8*bloom
	chains := buckets + 4*nbuckets
	top := uint64(0)
	for i := uint64(0); i < nbuckets; i += symChunk {
		b, err := f.mem(buckets+4*i, 4*min(symChunk, nbuckets-i))
		if err != nil || len(b) < 4 {
			return 0
		}
		for ; len(b) >= 4; b = b[4:] {
			top = max(top, uint64(le.Uint32(b)))
		}
	}
	if top < symoffset {
		return symoffset
	}
	for {
		b, err := f.mem(chains+4*(top-symoffset), 4*symChunk)
		if err != nil || len(b) < 4 {
			return top
		}
		for ; len(b) >= 4; b = b[4:] {
			top++
			if le.Uint32(b)&1 != 0 {
				return top
			}
		}
	}
}

// eachSymbol calls visit for each function and each label that the table defines.
func (f *elfFile) eachSymbol(t symtab, visit func(symbol)) error {
	buf := make([]byte, symChunk*symSize)
	for i := uint64(0); i < t.count; i += symChunk {
		n := min(symChunk, t.count-i)
		if !f.inFile(t.off+i*symSize, n*symSize) {
			return nil
		}
		b := buf[:n*symSize]
		if err := f.readAt(b, t.off+i*symSize); err != nil {
			return err
		}
		le := binary.LittleEndian
		for ; len(b) > 0; b = b[symSize:] {
			s := symbol{
				name: le.Uint32(b), typ: b[4] & 15, bind: b[4] >> 4, visibility: b[5] & 3,
				value: le.Uint64(b[8:]), size: le.Uint64(b[16:]),
			}
			if shndx := le.Uint16(b[6:]); shndx != 0 && (s.typ == sttFunc || s.typ == sttGNUIfunc || s.typ == sttNotype) {
				visit(s)
			}
		}
	}
	return nil
}

// name returns the name of s without a version, with what is not printable ASCII as "?".
func (f *elfFile) symbolName(t symtab, s symbol) string {
	if uint64(s.name) >= t.strSize {
		return ""
	}
	b, err := f.bytes(t.strOff+uint64(s.name), min(maxName+1, t.strSize-uint64(s.name)))
	if err != nil {
		return ""
	}
	name, _, _ := strings.Cut(cString(append(b, 0), 0), "@")
	return printable(name)
}

// printable returns a name with what is not printable ASCII as "?".
func printable(name string) string {
	return strings.Map(func(r rune) rune {
		if r <= ' ' || r > '~' {
			return '?'
		}
		return r
	}, name)
}

// functions is what the symbols, the unwind tables and the headers say about the functions
// near sites.
type functions struct {
	starts   starts
	extents  map[uint64]function // of those starts whose end is known
	entered  map[uint64]bool     // starts that are a function's, not a split part's
	ifuncs   map[uint64]bool     // starts of STT_GNU_IFUNC resolvers, and of IRELATIVE ones
	exported map[uint64]bool     // starts that other objects may call
	names    map[uint64]name     // of sites
	labels   []uint64            // values of all symbols
	roots    []uint64            // what the loader enters, near a site or not
}

// name is the best name found for one site.
type name struct {
	text  string
	start uint64
	rank  int
}

// findFunctions collects what is known about the functions around sites, which are in
// vaddr order.
func findFunctions(f *file, sites []Site) (*functions, error) {
	fn := &functions{
		extents: make(map[uint64]function), entered: make(map[uint64]bool),
		ifuncs: make(map[uint64]bool), exported: make(map[uint64]bool), names: make(map[uint64]name),
	}
	for _, t := range f.symtabs() {
		err := f.eachSymbol(t, func(s symbol) { fn.symbol(f, t, s, sites) })
		if err != nil {
			return nil, err
		}
	}
	nearby := func(start uint64) bool { return near(sites, start) }
	if err := f.eachFDE(nearby, func(d function) {
		if fn.start(d.start, sites) && d.end != 0 {
			d.end = max(d.end, fn.extents[d.start].end)
			fn.extents[d.start] = d
		}
	}); err != nil {
		return nil, err
	}
	if err := f.eachIrelative(func(resolver uint64) {
		if fn.start(resolver, sites) {
			fn.ifuncs[resolver] = true
			fn.entered[resolver] = true
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

// entries are the addresses in code that a loader enters: e_entry, the initialisers and the
// finalisers.
func (f *elfFile) entries() []uint64 {
	const dtFini, dtFiniArray, dtFiniArraysz = 13, 26, 28
	var all []uint64
	add := func(v uint64) {
		if f.execLoad(v) {
			all = append(all, v)
		}
	}
	add(f.entry)
	for _, tag := range [...]int64{dtInit, dtFini} {
		if d := f.dyn(tag); d != nil {
			add(d.val)
		}
	}
	arrays := [][2]uint64{} // vaddr, size
	for _, tags := range [...][2]int64{{dtInitArray, dtInitArraysz}, {dtFiniArray, dtFiniArraysz}} {
		if at, size := f.dyn(tags[0]), f.dyn(tags[1]); at != nil && size != nil && size.val <= maxStarts {
			arrays = append(arrays, [2]uint64{at.val, size.val})
		}
	}
	for i := range f.sections { // of static programs
		const shtInitArray, shtFiniArray = 14, 15
		if s := &f.sections[i]; (s.typ == shtInitArray || s.typ == shtFiniArray) && s.size <= maxStarts {
			arrays = append(arrays, [2]uint64{s.addr, s.size})
		}
		if s := &f.sections[i]; (s.name == ".init" || s.name == ".fini") && s.flags&shfExecinstr != 0 {
			add(s.addr)
		}
	}
	for _, a := range arrays {
		for v := a[0]; v+8 <= a[0]+a[1]; v += 8 {
			if w, ok := f.word(v); ok {
				add(w)
			}
		}
	}
	_ = f.relaWords(func(at, addend uint64) { // Scan reports what cannot be read
		for _, a := range arrays {
			if at >= a[0] && at < a[0]+a[1] {
				add(addend)
			}
		}
	})
	return all
}

// at returns the function that begins at start.
func (fn *functions) at(start uint64) function {
	if d, ok := fn.extents[start]; ok {
		return d
	}
	return function{start: start}
}

// near reports whether vaddr is within nearSite of a site.
func near(sites []Site, vaddr uint64) bool {
	i := sort.Search(len(sites), func(i int) bool { return sites[i].Vaddr+nearSite >= vaddr })
	return i < len(sites) && sites[i].Vaddr <= vaddr+nearSite
}

// start keeps a function start where it is near a site.
func (fn *functions) start(vaddr uint64, sites []Site) bool {
	if !near(sites, vaddr) || len(fn.starts) >= maxStarts {
		return false
	}
	fn.starts = append(fn.starts, vaddr)
	return true
}

// symbol takes in one symbol.
func (fn *functions) symbol(f *file, t symtab, s symbol, sites []Site) {
	if near(sites, s.value) && len(fn.labels) < maxStarts {
		fn.labels = append(fn.labels, s.value)
	}
	if s.typ == sttNotype || !fn.start(s.value, sites) {
		return
	}
	if s.typ == sttGNUIfunc {
		fn.ifuncs[s.value] = true
	}
	if end := s.value + s.size; s.size != 0 && end > s.value && end <= maxVaddr {
		fn.extents[s.value] = function{start: s.value, end: max(end, fn.extents[s.value].end)}
	}
	global := s.bind != stbLocal
	if global || f.execLoad(s.value) && !strings.Contains(f.symbolName(t, s), ".") { // no f.cold, no f.part.0
		fn.entered[s.value] = true
	}
	i := sort.Search(len(sites), func(i int) bool { return sites[i].Vaddr >= s.value })
	covers := i < len(sites) && sites[i].Vaddr-s.value < s.size
	if !covers {
		return
	}
	text := f.symbolName(t, s)
	// libpthread's lock functions are written in assembly and called with registers kept
	// that C may change; should one be exported, it is still no C function.
	if t.dynamic && global && (s.visibility == stvDefault || s.visibility == stvProt) && !strings.Contains(text, "lll_") {
		fn.exported[s.value] = true
	}
	n := name{text: text, start: s.value, rank: rankName(text, global)}
	for ; i < len(sites) && sites[i].Vaddr-s.value < s.size; i++ {
		if best, ok := fn.names[sites[i].Vaddr]; !ok || n.better(best) {
			fn.names[sites[i].Vaddr] = n
		}
	}
}

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
