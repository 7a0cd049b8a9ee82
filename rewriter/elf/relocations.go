// Relocations of programs and libraries: DT_RELA, DT_JMPREL, DT_RELR and the tables of static programs.

package elf

import (
	"encoding/binary"
)

// Rela is one relocation with an addend.
type Rela struct {
	Off    uint64 // of the entry in the file
	At     uint64 // vaddr of the relocated word
	Type   uint32
	Symbol uint32
	Addend uint64
}

// AddendOff is the offset of the addend in an entry, in bytes.
const AddendOff = 16

// EachRela calls visit for each relocation with an addend that is applied at load time: those of the dynamic
// segment or, in a static program, of its SHT_RELA sections.
func (f *File) EachRela(visit func(Rela)) {
	le := binary.LittleEndian
	each := func(off uint64, e []byte) {
		visit(Rela{off, le.Uint64(e), le.Uint32(e[8:]), le.Uint32(e[12:]), le.Uint64(e[AddendOff:])})
	}
	for _, tags := range [...][2]int64{{DTRela, DTRelasz}, {DTJmprel, DTPltrelsz}} {
		at, size := f.Range(tags[0], tags[1])
		p := f.Load(at)
		if p == nil {
			continue
		}
		d := at - p.Vaddr
		f.records(p.Off+d, min(size, p.Filesz-d)/RelaSize, RelaSize, each)
	}
	for i := range f.Sections {
		if s := &f.Sections[i]; f.Dynamic == nil && s.Type == SHTRela && s.Addr != 0 {
			f.records(s.Off, s.Size/RelaSize, RelaSize, each)
		}
	}
}

// EachImport calls visit with each word that the loader fills with the address of a function of another object,
// and the function's name.
func (f *File) EachImport(visit func(at uint64, name string)) {
	f.eachOf(RJumpSlot, RGlobDat, func(r Rela, t Symtab, s Symbol) { visit(r.At, f.SymbolName(t, s)) })
}

// EachPointer calls visit with each word that the loader fills with an address in the file.
func (f *File) EachPointer(visit func(at, to uint64)) {
	f.EachRela(func(r Rela) {
		if r.Type == RRelative {
			visit(r.At, r.Addend)
		}
	})
	f.eachOf(r64, RGlobDat, func(r Rela, _ Symtab, s Symbol) { visit(r.At, s.Value+r.Addend) })
}

// eachOf calls visit with each relocation of two types that names a dynamic symbol, and the symbol.
func (f *File) eachOf(typ, or uint32, visit func(Rela, Symtab, Symbol)) {
	t, ok := f.dynamicSymtab()
	if !ok {
		return
	}
	f.EachRela(func(r Rela) {
		if r.Type != typ && r.Type != or || uint64(r.Symbol) >= t.count {
			return
		} else if b := f.Bytes(t.off+uint64(r.Symbol)*SymSize, SymSize); b != nil {
			visit(r, t, symbolOf(b))
		}
	})
}

// maxRelr is how many entries of DT_RELR are read; each encodes up to 63 words.
const maxRelr = 1 << 21

// InRelr reports whether DT_RELR relocates the word at vaddr. Source: gABI proposal
// "Relative relocations" (DT_RELR): an even entry is an address, an odd one a bitmap of the
// 63 words behind it.
func (f *File) InRelr(vaddr uint64) (found bool) {
	at, size := f.Range(DTRelr, DTRelrsz)
	start, ok := f.Offset(at, size)
	if !ok {
		return false
	}
	const word = 8
	var next uint64
	f.records(start, min(size/word, maxRelr), word, func(_ uint64, b []byte) {
		e := binary.LittleEndian.Uint64(b)
		if e&1 == 0 {
			found, next = found || e == vaddr, e+word
			return
		}
		d := vaddr - next
		found = found || d%word == 0 && e>>(1+d/word)&1 == 1
		next += 63 * word
	})
	return found
}
