// Relocations of programs and libraries: DT_RELA, DT_JMPREL, DT_RELR and the tables of static programs.

package elf

import (
	"encoding/binary"
)

// EachIrelative calls visit with the resolver of each R_X86_64_IRELATIVE relocation: those
// of the dynamic segment, and in a static program those of its SHT_RELA sections.
func (f *File) EachIrelative(visit func(resolver uint64)) error {
	return f.EachRela(func(_ uint64, typ uint32, addend uint64) {
		if typ == RIrelative {
			visit(addend)
		}
	})
}

// RelaWords calls visit with each word that a RELATIVE relocation fills, and its value.
func (f *File) RelaWords(visit func(at, addend uint64)) error {
	return f.EachRela(func(at uint64, typ uint32, addend uint64) {
		if typ == RRelative {
			visit(at, addend)
		}
	})
}

// EachImport calls visit with each word that is filled with the address of a function of another
// object at load, and the function's name.
func (f *File) EachImport(visit func(at uint64, name string)) error {
	t, ok := f.dynamicSymtab()
	if !ok {
		return nil
	}
	return f.eachRela(func(at, info, _ uint64) {
		if typ, n := uint32(info), info>>32; typ != RJumpSlot && typ != RGlobDat || n >= t.count {
			return
		} else if b, err := f.peek(t.off+n*SymSize, SymSize); err == nil { // who reads sees what cannot be read
			visit(at, f.SymbolName(t, Symbol{name: binary.LittleEndian.Uint32(b)}))
		}
	})
}

// EachRela calls visit for each relocation with an addend that is applied at load time.
func (f *File) EachRela(visit func(at uint64, typ uint32, addend uint64)) error {
	return f.eachRela(func(at, info, addend uint64) { visit(at, uint32(info), addend) })
}

func (f *File) eachRela(visit func(at, info, addend uint64)) error {
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

func (f *File) relaRange(off, size uint64, visit func(at, info, addend uint64)) error {
	const chunk = symChunk * RelaSize
	for ; size >= RelaSize; off, size = off+chunk, size-min(chunk, size) {
		b, err := f.peek(off, min(chunk, size))
		if err != nil {
			return err
		}
		for ; len(b) >= RelaSize; b = b[RelaSize:] {
			visit(binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:]), binary.LittleEndian.Uint64(b[16:]))
		}
	}
	return nil
}

// RelativeAddend finds the R_X86_64_RELATIVE relocation of the word at vaddr in DT_RELA and
// returns where in the file its addend is; offset 0: there is none.
func (f *File) RelativeAddend(vaddr uint64) (off, addend uint64, err error) {
	rela, size := f.Dyn(DTRela), f.Dyn(DTRelasz)
	if rela == nil || size == nil {
		return 0, 0, nil
	}
	start, ok := f.Offset(rela.Val, size.Val)
	if !ok {
		return 0, 0, nil
	}
	le := binary.LittleEndian
	const batch = 1 << 12 // entries read at once
	for n := size.Val / RelaSize; n > 0; {
		k := min(n, batch)
		b, err := f.Bytes(start, k*RelaSize)
		if err != nil {
			return 0, 0, err
		}
		for i := uint64(0); i < k; i++ {
			e := b[i*RelaSize:]
			if le.Uint64(e) == vaddr && le.Uint64(e[8:]) == RRelative {
				return start + i*RelaSize + 16, le.Uint64(e[16:]), nil
			}
		}
		start, n = start+k*RelaSize, n-k
	}
	return 0, 0, nil
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
