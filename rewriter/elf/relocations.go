// Relocations of programs and libraries: DT_RELA, DT_JMPREL, DT_RELR and the tables of static programs.

package elf

import (
	"encoding/binary"
)

// Rela is one relocation with an addend.
type Rela struct {
	Off    uint64 // of the entry in the file
	At     uint64 // vaddr of what is relocated
	Type   uint32
	Symbol uint32
	Addend uint64
}

// AddendOff is where in an entry its addend is, in bytes.
const AddendOff = 16

// EachRela calls visit for each relocation with an addend that is applied at load time: those of the dynamic
// segment, or, in a static program, of its SHT_RELA sections.
func (f *File) EachRela(visit func(Rela)) error {
	for _, tags := range [...][2]int64{{DTRela, DTRelasz}, {DTJmprel, DTPltrelsz}} {
		at, size := f.Dyn(tags[0]), f.Dyn(tags[1])
		if at == nil || size == nil {
			continue
		}
		p := f.Load(at.Val)
		if p == nil {
			continue
		}
		n := min(size.Val, p.Filesz-(at.Val-p.Vaddr))
		if err := f.relaRange(p.Off+(at.Val-p.Vaddr), n, visit); err != nil {
			return err
		}
	}
	if f.Dynamic != nil {
		return nil
	}
	for i := range f.Sections {
		if s := &f.Sections[i]; s.Type == SHTRela && s.Addr != 0 {
			if err := f.relaRange(s.Off, s.Size, visit); err != nil {
				return err
			}
		}
	}
	return nil
}

func (f *File) relaRange(off, size uint64, visit func(Rela)) error {
	const chunk = symChunk * RelaSize
	le := binary.LittleEndian
	for ; size >= RelaSize; size -= min(chunk, size) {
		b, err := f.peek(off, min(chunk, size))
		if err != nil {
			return err
		}
		for ; len(b) >= RelaSize; b, off = b[RelaSize:], off+RelaSize {
			visit(Rela{off, le.Uint64(b), le.Uint32(b[8:]), le.Uint32(b[12:]), le.Uint64(b[AddendOff:])})
		}
	}
	return nil
}

// EachImport calls visit with each word that is filled with the address of a function of another
// object at load, and the function's name.
func (f *File) EachImport(visit func(at uint64, name string)) error {
	t, ok := f.dynamicSymtab()
	if !ok {
		return nil
	}
	return f.EachRela(func(r Rela) {
		if r.Type != RJumpSlot && r.Type != RGlobDat || uint64(r.Symbol) >= t.count {
			return
		} else if b, err := f.peek(t.off+uint64(r.Symbol)*SymSize, SymSize); err == nil { // who reads sees what cannot be read
			visit(r.At, f.SymbolName(t, Symbol{name: binary.LittleEndian.Uint32(b)}))
		}
	})
}

// maxRelr bounds the bytes of DT_RELR that are read; it encodes up to 64 times as many words.
const maxRelr = 1 << 24

// InRelr reports whether DT_RELR relocates the word at vaddr. Source: gABI proposal
// "Relative relocations" (DT_RELR): an even entry is an address, an odd one a bitmap of the
// 63 words behind it.
func (f *File) InRelr(vaddr uint64) bool {
	relr, size := f.Dyn(DTRelr), f.Dyn(DTRelrsz)
	if relr == nil || size == nil {
		return false
	}
	start, ok := f.Offset(relr.Val, size.Val)
	if !ok {
		return false
	}
	b, err := f.Bytes(start, min(size.Val, maxRelr))
	if err != nil {
		return false
	}
	var next uint64
	for ; len(b) >= 8; b = b[8:] {
		e := binary.LittleEndian.Uint64(b)
		if e&1 == 0 {
			if e == vaddr {
				return true
			}
			next = e + 8
			continue
		}
		if d := vaddr - next; vaddr >= next && d%8 == 0 && d/8 < 63 && e>>(1+d/8)&1 == 1 {
			return true
		}
		next += 63 * 8
	}
	return false
}
