// Symbol tables, and the entries of the loader.

package elf

import (
	"encoding/binary"
	"strings"
)

// Symbols. Source: gABI, "Symbol Table".
const (
	STTNotype   = 0
	STTObject   = 1
	STTFunc     = 2
	STTGNUIfunc = 10
	STBLocal    = 0

	// symChunk is the number of symbols that are read at once.
	symChunk = 4096
	// MaxStarts is the maximum number of function starts of one file.
	MaxStarts = 1 << 18
	// maxName is the longest symbol name that is shown, in bytes.
	maxName = 200
)

// Symtab is the place of a symbol table and its strings in the file.
type Symtab struct {
	off, count      uint64
	strOff, strSize uint64
	Dynamic         bool
}

// Symbol is one defined function, label or variable.
type Symbol struct {
	Value, Size uint64
	name        uint32
	Type, Bind  byte
}

// Symtabs returns .symtab and the dynamic symbol table, if they exist.
func (f *File) Symtabs() []Symtab {
	var tabs []Symtab
	for i := range f.Sections {
		s := &f.Sections[i]
		if s.Type != SHTSymtab || uint64(s.link) >= uint64(len(f.Sections)) {
			continue
		}
		if str := f.Sections[s.link]; str.Type == SHTStrtab {
			tabs = append(tabs, Symtab{off: s.Off, count: s.Size / SymSize, strOff: str.Off, strSize: str.Size})
			break
		}
	}
	if t, ok := f.dynamicSymtab(); ok {
		tabs = append(tabs, t)
	}
	return tabs
}

// dynamicSymtab finds the dynamic symbol table as a loader does, through DT_SYMTAB, which does not have its
// length.
func (f *File) dynamicSymtab() (Symtab, bool) {
	sym, str := f.Dyn(DTSymtab), f.Dyn(DTStrtab)
	if sym == nil || str == nil {
		return Symtab{}, false
	}
	off, ok1 := f.Offset(sym.Val, SymSize)
	strOff, ok2 := f.Offset(str.Val, 1)
	if !ok1 || !ok2 {
		return Symtab{}, false
	}
	p := f.Load(sym.Val)
	room := (p.Filesz - (sym.Val - p.Vaddr)) / SymSize
	q := f.Load(str.Val)
	return Symtab{
		off: off, count: min(f.dynamicSymbols(), room),
		strOff: strOff, strSize: q.Filesz - (str.Val - q.Vaddr), Dynamic: true,
	}, true
}

// dynamicSymbols returns the number of dynamic symbols, from DT_HASH, DT_GNU_HASH or the section header; 0 if it
// is not known.
func (f *File) dynamicSymbols() uint64 {
	if d := f.Dyn(DTHash); d != nil {
		if b := f.Mem(d.Val, 8); len(b) == 8 {
			return uint64(binary.LittleEndian.Uint32(b[4:])) // nchain
		}
	}
	if d := f.Dyn(DTGNUHash); d != nil {
		if n := f.gnuHashSymbols(d.Val); n > 0 {
			return n
		}
	}
	if s := first(f.Sections, func(s *Section) bool { return s.Type == SHTDynsym }); s != nil {
		return s.Size / SymSize
	}
	return 0
}

// gnuHashSymbols returns one more than the highest symbol in the DT_GNU_HASH table at
// vaddr: the end of the chain that begins at the highest bucket. The table's layout is in
// binutils' bfd/elflink.c (bfd_elf_size_dynsym_hash_dynstr).
func (f *File) gnuHashSymbols(vaddr uint64) uint64 {
	h := f.Mem(vaddr, 16)
	if len(h) < 16 {
		return 0
	}
	le := binary.LittleEndian
	nbuckets, symoffset, bloom := uint64(le.Uint32(h)), uint64(le.Uint32(h[4:])), uint64(le.Uint32(h[8:]))
	buckets := vaddr + 16 + 8*bloom
	chains := buckets + 4*nbuckets
	top := uint64(0)
	off, ok := f.Offset(buckets, 4*nbuckets)
	if !ok {
		return 0
	}
	f.records(off, nbuckets, 4, func(_ uint64, e []byte) { top = max(top, uint64(le.Uint32(e))) })
	if top < symoffset {
		return symoffset
	}
	for {
		b := f.Mem(chains+4*(top-symoffset), 4*symChunk)
		if len(b) < 4 {
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

// EachSymbol calls visit for each function, label and variable that the table defines.
func (f *File) EachSymbol(t Symtab, visit func(Symbol)) {
	le := binary.LittleEndian
	f.records(t.off, t.count, SymSize, func(_ uint64, b []byte) {
		s := symbolOf(b)
		if shndx := le.Uint16(b[6:]); shndx != 0 && (s.Type <= STTFunc || s.Type == STTGNUIfunc) {
			visit(s)
		}
	})
}

// symbolOf reads one entry of a symbol table.
func symbolOf(b []byte) Symbol {
	le := binary.LittleEndian
	return Symbol{name: le.Uint32(b), Type: b[4] & 15, Bind: b[4] >> 4, Value: le.Uint64(b[8:]), Size: le.Uint64(b[16:])}
}

// SymbolName returns the name of s without a version, with "?" in place of characters that are not printable
// ASCII.
func (f *File) SymbolName(t Symtab, s Symbol) string {
	if uint64(s.name) >= t.strSize {
		return ""
	}
	b := f.Bytes(t.strOff+uint64(s.name), min(maxName, t.strSize-uint64(s.name)))
	name, _, _ := strings.Cut(cString(append(b, 0), 0), "@")
	return printable(name)
}

// printable replaces characters that are not printable ASCII by "?".
func printable(name string) string {
	return strings.Map(func(r rune) rune {
		if r <= ' ' || r > '~' {
			return '?'
		}
		return r
	}, name)
}
