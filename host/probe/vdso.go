// The vDSO's symbols and their versions, from its image as vfix-measure writes it. The kernel
// made it, yet every offset is checked: the image may come from a file. Sources: ELF gABI
// chapters 4 and 5; the LSB's "Symbol Versioning".

package probe

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
)

// Symbol is one function that the vDSO offers.
type Symbol struct{ Name, Version string }

const (
	elfHeader  = 64 // bytes, Elf64_Ehdr
	sectionLen = 64 // Elf64_Shdr
	symbolLen  = 24 // Elf64_Sym
	verdefLen  = 20 // Elf64_Verdef

	shtDynsym = 11
	shtVersym = 0x6fffffff
	shtVerdef = 0x6ffffffd

	sttFunc, sttNotype = 2, 0
	maxSymbols         = 4096
	versionMask        = 0x7fff // the highest bit of a version index means hidden
)

var errVDSO = errors.New("not the image of a vDSO")

var le = binary.LittleEndian

// section is what a section header says, its content and its link.
type section struct {
	kind uint32
	data []byte
	link uint32
}

// VDSO returns the functions of a vDSO's image, sorted by name.
func VDSO(image []byte) ([]Symbol, error) {
	sections, err := sectionsOf(image)
	if err != nil {
		return nil, err
	}
	var symbols, versions, defs []byte
	var strtab, verstr []byte
	for _, s := range sections {
		var link []byte
		if int64(s.link) < int64(len(sections)) {
			link = sections[s.link].data
		}
		switch s.kind {
		case shtDynsym:
			symbols, strtab = s.data, link
		case shtVersym:
			versions = s.data
		case shtVerdef:
			defs, verstr = s.data, link
		}
	}
	if symbols == nil || len(symbols)/symbolLen > maxSymbols {
		return nil, fmt.Errorf("%w: %d bytes of dynamic symbols", errVDSO, len(symbols))
	}
	names := versionNames(defs, verstr)
	var all []Symbol
	for i := 0; (i+1)*symbolLen <= len(symbols); i++ {
		s := symbols[i*symbolLen:]
		kind, shndx := s[4]&0xf, le.Uint16(s[6:])
		name := text(strtab, le.Uint32(s))
		if shndx == 0 || name == "" || kind != sttFunc && kind != sttNotype {
			continue
		}
		sym := Symbol{Name: name}
		if 2*i+2 <= len(versions) {
			sym.Version = names[le.Uint16(versions[2*i:])&versionMask]
		}
		all = append(all, sym)
	}
	slices.SortFunc(all, func(a, b Symbol) int { return bytes.Compare([]byte(a.Name), []byte(b.Name)) })
	return all, nil
}

// sectionsOf reads the section headers of an x86-64 ELF image.
func sectionsOf(image []byte) ([]section, error) {
	const machine = 62 // EM_X86_64
	if len(image) < elfHeader || string(image[:6]) != "\x7fELF\x02\x01" || le.Uint16(image[18:]) != machine {
		return nil, fmt.Errorf("%w: no x86-64 ELF header", errVDSO)
	}
	offset, size, count := le.Uint64(image[40:]), le.Uint16(image[58:]), uint64(le.Uint16(image[60:]))
	total := uint64(len(image))
	if size != sectionLen || offset > total || count*sectionLen > total-offset {
		return nil, fmt.Errorf("%w: section headers at %#x, %d of them", errVDSO, offset, count)
	}
	var all []section
	for i := range count {
		h := image[offset+i*sectionLen:]
		s := section{kind: le.Uint32(h[4:]), link: le.Uint32(h[40:])}
		at, n := le.Uint64(h[24:]), le.Uint64(h[32:])
		const shtNobits = 8
		if s.kind != shtNobits && at <= total && n <= total-at {
			s.data = image[at : at+n]
		}
		all = append(all, s)
	}
	return all, nil
}

// versionNames reads the version definitions: index to name.
func versionNames(defs, strtab []byte) map[uint16]string {
	const base = 1 // VER_FLG_BASE: the file's own name
	names := map[uint16]string{}
	at := uint64(0)
	for range maxSymbols {
		if at+verdefLen > uint64(len(defs)) {
			break
		}
		d := defs[at:]
		flags, index, aux, next := le.Uint16(d[2:]), le.Uint16(d[4:]), uint64(le.Uint32(d[12:])), uint64(le.Uint32(d[16:]))
		if flags&base == 0 && at+aux+8 <= uint64(len(defs)) {
			names[index] = text(strtab, le.Uint32(defs[at+aux:]))
		}
		if next == 0 {
			break
		}
		at += next
	}
	return names
}

// text is the string at an offset of a string table, "" where there is none.
func text(strtab []byte, offset uint32) string {
	if uint64(offset) >= uint64(len(strtab)) {
		return ""
	}
	s, _, ok := bytes.Cut(strtab[offset:], []byte{0})
	if !ok {
		return ""
	}
	return string(s)
}
