// The parser of ELF files: headers, sections and the dynamic segment, all checked.

package elf

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"slices"
)

// The parts of the ELF format that vfix reads. Source: System V gABI, chapters 4 and 5, and the x86-64 psABI. vfix
// does not use debug/elf on input: it allocates by sizes that the file claims, and vfix needs offsets of single
// fields to edit.
const (
	EhdrSize = 64
	PhdrSize = 56
	ShdrSize = 64
	SymSize  = 24
	RelaSize = 24
	DynSize  = 16

	TypeExec = 2
	TypeDyn  = 3

	MachineX8664 = 62

	PTNull       = 0
	PTLoad       = 1
	PTDynamic    = 2
	PTInterp     = 3
	PTNote       = 4
	PTPhdr       = 6
	PTGNUEhFrame = 0x6474e550

	PFX = 1
	PFW = 2
	PFR = 4

	SHTNull     = 0
	SHTProgbits = 1
	SHTSymtab   = 2
	SHTStrtab   = 3
	SHTRela     = 4
	SHTNobits   = 8
	SHTDynsym   = 11

	SHFAlloc     = 2
	SHFExecinstr = 4

	DTNull        = 0
	DTNeeded      = 1
	DTPltrelsz    = 2
	DTHash        = 4
	DTStrtab      = 5
	DTSymtab      = 6
	DTRela        = 7
	DTRelasz      = 8
	DTInit        = 12
	DTSoname      = 14
	DTDebug       = 21
	DTJmprel      = 23
	DTInitArray   = 25
	DTInitArraysz = 27
	DTRelr        = 36
	DTGNUHash     = 0x6ffffef5
	DTFlags1      = 0x6ffffffb

	DF1PIE = 0x08000000 // of DT_FLAGS_1; gABI extension, elf.h

	RRelative  = 8  // R_X86_64_RELATIVE
	RIrelative = 37 // R_X86_64_IRELATIVE

	// MaxPhnum is more program headers than any loader can use; the kernel itself accepts 64 KiB of them
	// (fs/binfmt_elf.c, load_elf_phdrs).
	MaxPhnum = 65536 / PhdrSize
	// MaxShnum is the maximum number of section headers read: e_shnum has 16 bits, and a file with SHN_XINDEX is
	// treated as one without section headers.
	MaxShnum = 0xff00
	// maxDyn is the maximum number of dynamic entries read; known files have below 100.
	maxDyn = 4096
	// MaxVaddr is the end of the lower half of the 47-bit address space.
	MaxVaddr = 1 << 47
)

// Prog is one program header.
type Prog struct {
	Index                int // in the table
	Type, Flags          uint32
	Off, Vaddr, Paddr    uint64
	Filesz, Memsz, Align uint64
}

// Section is one section header.
type Section struct {
	Index                  int
	Name                   string
	nameOff, Type          uint32
	Flags, Addr, Off, Size uint64
	link                   uint32
}

// Dyn is one entry of the dynamic segment.
type Dyn struct {
	Off uint64 // of the entry in the file
	Tag int64
	Val uint64
}

// File is a checked view of a 64-bit x86-64 ELF file. Its parts are inside the file.
type File struct {
	R      io.ReaderAt
	Size   uint64 // in bytes
	failed error  // see Err

	Type            uint16
	Entry           uint64
	PhOff, ShOff    uint64
	ShNum, ShStrNdx int
	ShBeyond        bool // the section headers, or a section, end beyond the file
	Progs           []Prog
	Sections        []Section // nil if the file has none, or has damaged ones
	Dynamic         []Dyn     // up to DT_NULL, without it
}

// Kind is the kind of a reason to skip a file.
type Kind uint8

// The kinds of reasons. The first two are damage; with the first five, a file may nevertheless call the page.
const (
	KindDamaged Kind = iota // an impossible value in an ELF file
	KindBroken              // vfix has patched the file, and it was broken later
	KindFormat              // patched by vfix in an unknown format
	KindX32                 // 64-bit code, with the headers of a 32-bit file
	KindNotELF
	KindForeign // another class, byte order, machine or type
)

var kindPrefixes = [...]string{KindDamaged: "damaged ELF: ", KindBroken: "patched by vfix, and damaged since: "}

// Skip is why a file is skipped; nil if it is not.
type Skip struct {
	Kind Kind
	fact string
}

// NewSkip returns a reason with its facts in words.
func NewSkip(kind Kind, format string, a ...any) *Skip {
	return &Skip{kind, fmt.Sprintf(format, a...)}
}

// String returns the reason in words, "" for nil.
func (e *Skip) String() string {
	switch {
	case e == nil:
		return ""
	case e.Damaged():
		return kindPrefixes[e.Kind] + e.fact
	}
	return e.fact
}

func (e *Skip) Error() string { return e.String() }

// AsSkip returns an error as the reason to skip a file if it is one, else unchanged: as a failed read.
func AsSkip(err error) (*Skip, error) {
	if skip, ok := err.(*Skip); ok {
		return skip, nil
	}
	return nil, err
}

// Damaged reports whether the file has a known format but is damaged.
func (e *Skip) Damaged() bool { return e != nil && e.Kind <= KindBroken }

// MayCall reports whether the file may run and call the page although its code was not examined.
func (e *Skip) MayCall() bool { return e != nil && e.Kind <= KindX32 }

// Damaged returns the reason to skip a file with an impossible value.
func Damaged(format string, a ...any) error { return NewSkip(KindDamaged, format, a...) }

// Parse reads the headers of the file in r, which has size bytes. A *Skip means that the file is not for vfix; any
// other error is a failed read.
func Parse(r io.ReaderAt, size int64) (*File, error) {
	f := &File{R: r, Size: uint64(max(size, 0))}
	err := f.parse()
	if err = cmp.Or(f.failed, err); err != nil {
		return nil, err
	}
	return f, nil
}

func (f *File) parse() error {
	var hdr [EhdrSize]byte
	if _, err := f.ReadAt(hdr[:min(f.Size, EhdrSize)], 0); err != nil {
		return err
	}
	if string(hdr[:4]) != "\x7fELF" {
		return NewSkip(KindNotELF, "not an ELF file")
	}
	if f.Size < EhdrSize {
		return Damaged("ends inside the ELF header (%d bytes)", f.Size)
	}
	// The kernel reads e_machine and e_phentsize, but not e_version, e_ehsize or the bytes of e_ident behind the
	// magic (fs/binfmt_elf.c, load_elf_binary and load_elf_phdrs): it runs a file as 64-bit by these alone.
	le := binary.LittleEndian
	switch m := le.Uint16(hdr[18:]); {
	case m == MachineX8664 && (hdr[4] != 1 || le.Uint16(hdr[54:]) == PhdrSize):
	case m == MachineX8664:
		return NewSkip(KindX32, "ELF of the x32 ABI, which vfix does not examine")
	case hdr[5] == 2:
		return NewSkip(KindForeign, "big-endian ELF")
	case hdr[4] == 1:
		return NewSkip(KindForeign, "32-bit ELF")
	default:
		return NewSkip(KindForeign, "ELF for another machine (e_machine %d)", m)
	}
	f.Type = le.Uint16(hdr[16:])
	if f.Type != TypeExec && f.Type != TypeDyn {
		return NewSkip(KindForeign, "ELF of type %d, neither a program nor a shared library", f.Type)
	}
	f.Entry = le.Uint64(hdr[24:])
	f.PhOff = le.Uint64(hdr[32:])
	if s := le.Uint16(hdr[54:]); s != PhdrSize {
		return Damaged("e_phentsize %d, want %d", s, PhdrSize)
	}
	if err := f.readProgs(int(le.Uint16(hdr[56:]))); err != nil {
		return err
	}
	f.readSections(hdr[:])
	return f.readDynamic()
}

func (f *File) readProgs(n int) error {
	if n == 0 {
		return Damaged("no program headers")
	}
	if n > MaxPhnum {
		return Damaged("%d program headers, at most %d", n, MaxPhnum)
	}
	if !f.InFile(f.PhOff, uint64(n)*PhdrSize) {
		return Damaged("%d program headers at offset %#x end beyond the file (%d bytes)", n, f.PhOff, f.Size)
	}
	le := binary.LittleEndian
	f.Progs = make([]Prog, 0, n)
	f.records(f.PhOff, uint64(n), PhdrSize, func(_ uint64, e []byte) {
		f.Progs = append(f.Progs, Prog{
			Index: len(f.Progs), Type: le.Uint32(e), Flags: le.Uint32(e[4:]),
			Off: le.Uint64(e[8:]), Vaddr: le.Uint64(e[16:]), Paddr: le.Uint64(e[24:]),
			Filesz: le.Uint64(e[32:]), Memsz: le.Uint64(e[40:]), Align: le.Uint64(e[48:]),
		})
	})
	var last *Prog
	for i := range f.Progs {
		p := &f.Progs[i]
		if p.Type != PTLoad {
			continue
		}
		switch {
		case !f.InFile(p.Off, p.Filesz):
			return Damaged("segment %d (offset %#x, filesz %#x) ends beyond the file (%d bytes)", i, p.Off, p.Filesz, f.Size)
		case p.Filesz > p.Memsz:
			return Damaged("segment %d: filesz %#x exceeds memsz %#x", i, p.Filesz, p.Memsz)
		case p.Vaddr > MaxVaddr || p.Memsz > MaxVaddr-p.Vaddr:
			return Damaged("segment %d (vaddr %#x, memsz %#x) ends beyond the address space", i, p.Vaddr, p.Memsz)
		case last != nil && p.Vaddr < last.Vaddr+last.Memsz:
			return Damaged("segment %d at vaddr %#x overlaps or precedes segment %d", i, p.Vaddr, last.Index)
		case last != nil && p.covers(last):
			return Damaged("segment %d at vaddr %#x covers the last page of segment %d", i, p.Vaddr, last.Index)
		}
		last = p
	}
	if last == nil {
		return Damaged("no PT_LOAD segment")
	}
	return nil
}

// covers reports whether the first page of p overlaps the last one of the previous segment, if one of them is
// code: the two pages are different pages of the file.
func (p *Prog) covers(last *Prog) bool {
	return p.Vaddr&^(PageSize-1) < last.Vaddr+last.Filesz && p.Vaddr-p.Off != last.Vaddr-last.Off && p.Filesz > 0 && (p.Flags|last.Flags)&PFX != 0
}

// readSections reads the section headers. Damaged ones are not a reason to skip a file, as loaders do not read
// them: f.Sections is then nil.
func (f *File) readSections(hdr []byte) {
	le := binary.LittleEndian
	f.ShOff, f.ShNum, f.ShStrNdx = le.Uint64(hdr[40:]), int(le.Uint16(hdr[60:])), int(le.Uint16(hdr[62:]))
	n := uint64(f.ShNum)
	if le.Uint16(hdr[58:]) != ShdrSize || n == 0 || n > MaxShnum || f.ShOff == 0 {
		return
	}
	if !f.InFile(f.ShOff, n*ShdrSize) {
		f.ShBeyond = true
		return
	}
	s := make([]Section, 0, n)
	f.records(f.ShOff, n, ShdrSize, func(_ uint64, e []byte) {
		s = append(s, Section{
			Index: len(s), nameOff: le.Uint32(e), Type: le.Uint32(e[4:]), Flags: le.Uint64(e[8:]),
			Addr: le.Uint64(e[16:]), Off: le.Uint64(e[24:]), Size: le.Uint64(e[32:]),
			link: le.Uint32(e[40:]),
		})
	})
	if f.failed != nil {
		return
	}
	f.ShBeyond = slices.ContainsFunc(s[1:], func(s Section) bool { return s.Type != SHTNobits && !f.InFile(s.Off, s.Size) })
	if f.ShBeyond {
		return
	}
	s[0] = Section{} // number 0 is unused, whatever its header says
	if f.ShStrNdx >= len(s) || s[f.ShStrNdx].Type != SHTStrtab {
		return
	}
	strs := f.Bytes(s[f.ShStrNdx].Off, min(s[f.ShStrNdx].Size, math.MaxUint16))
	for i := range s {
		s[i].Name = cString(strs, uint64(s[i].nameOff))
	}
	f.Sections = s
}

func (f *File) readDynamic() error {
	p := f.Prog(PTDynamic)
	if p == nil {
		return nil
	}
	if !f.InFile(p.Off, p.Filesz) {
		return Damaged("dynamic segment (offset %#x, filesz %#x) ends beyond the file (%d bytes)", p.Off, p.Filesz, f.Size)
	}
	ended := false
	f.records(p.Off, min(p.Filesz/DynSize, maxDyn), DynSize, func(off uint64, e []byte) {
		d := Dyn{Off: off, Tag: int64(binary.LittleEndian.Uint64(e)), Val: binary.LittleEndian.Uint64(e[8:])}
		if ended = ended || d.Tag == DTNull; !ended {
			f.Dynamic = append(f.Dynamic, d)
		}
	})
	return nil
}
