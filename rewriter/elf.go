// Parsing ELF files: headers, sections and the dynamic segment, all checked.

package rewriter

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
)

// The parts of the ELF format that vfix reads. Source: System V gABI, chapters 4 and 5,
// and the x86-64 psABI. debug/elf is not used on input: it allocates by sizes that the
// file claims, and vfix needs offsets of single fields to edit.
const (
	ehdrSize = 64
	phdrSize = 56
	shdrSize = 64
	symSize  = 24
	relaSize = 24
	dynSize  = 16

	etExec = 2
	etDyn  = 3

	emX8664 = 62

	ptNull        = 0
	ptLoad        = 1
	ptDynamic     = 2
	ptInterp      = 3
	ptNote        = 4
	ptPhdr        = 6
	ptGNUProperty = 0x6474e553

	pfX = 1
	pfW = 2
	pfR = 4

	shtProgbits = 1
	shtSymtab   = 2
	shtStrtab   = 3
	shtNote     = 7
	shtNobits   = 8
	shtDynsym   = 11

	shfWrite     = 1
	shfAlloc     = 2
	shfExecinstr = 4

	dtNull        = 0
	dtNeeded      = 1
	dtStrtab      = 5
	dtSymtab      = 6
	dtRela        = 7
	dtRelasz      = 8
	dtInit        = 12
	dtSoname      = 14
	dtDebug       = 21
	dtInitArray   = 25
	dtInitArraysz = 27
	dtRelrsz      = 35
	dtRelr        = 36
	dtFlags1      = 0x6ffffffb

	df1PIE = 0x08000000 // of DT_FLAGS_1; gABI extension, elf.h

	rRelative = 8

	// maxPhnum is more program headers than any loader maps usefully; the kernel itself
	// stops at 64 KiB of them (fs/binfmt_elf.c, load_elf_phdrs).
	maxPhnum = 65536 / phdrSize
	// maxShnum bounds the section headers read: e_shnum has 16 bits, and a file with
	// SHN_XINDEX is treated as one without section headers.
	maxShnum = 0xff00
	// maxDyn bounds the dynamic entries read; real files have below 100.
	maxDyn = 4096
	// maxVaddr is the end of the lower half of the 47-bit address space.
	maxVaddr = 1 << 47
)

// prog is one program header.
type prog struct {
	index                int // in the table
	typ, flags           uint32
	off, vaddr, paddr    uint64
	filesz, memsz, align uint64
}

// section is one section header.
type section struct {
	index                  int
	name                   string
	nameOff, typ           uint32
	flags, addr, off, size uint64
	link, info             uint32
	align, entsize         uint64
}

// dyn is one entry of the dynamic segment.
type dyn struct {
	off uint64 // of the entry in the file
	tag int64
	val uint64
}

// elfFile is a checked view of a 64-bit x86-64 ELF file. What is in it lies inside the file.
type elfFile struct {
	r    io.ReaderAt
	size uint64

	typ             uint16
	entry           uint64
	phoff, shoff    uint64
	shnum, shstrndx int
	progs           []prog
	sections        []section // nil where there are none, or they are damaged
	dynamic         []dyn     // up to and without DT_NULL
	dynSpare        []uint64  // offsets of unused DT_NULL entries after the first
}

// skipError is why a file is passed over.
type skipError struct {
	reason  string
	damaged bool
	// runs says that a kernel may run the file all the same.
	runs bool
}

func (e *skipError) Error() string { return e.reason }

func notFor(format string, a ...any) error { return &skipError{reason: fmt.Sprintf(format, a...)} }

func damaged(format string, a ...any) error {
	return &skipError{reason: "damaged ELF: " + fmt.Sprintf(format, a...), damaged: true}
}

// parseELF reads the headers of the size bytes behind r. A *skipError says that the file
// is not one for vfix; where it runs all the same, its segments come with it. Any other error came
// from r.
func parseELF(r io.ReaderAt, size int64) (*elfFile, error) {
	f := &elfFile{r: r, size: uint64(max(size, 0))}
	if f.size < 4 {
		return nil, notFor("not an ELF file")
	}
	var hdr [ehdrSize]byte
	n := min(f.size, ehdrSize)
	if err := f.readAt(hdr[:n], 0); err != nil {
		return nil, err
	}
	if string(hdr[:4]) != "\x7fELF" {
		return nil, notFor("not an ELF file")
	}
	if n < 20 {
		return nil, damaged("ends inside the ELF header (%d bytes)", f.size)
	}
	if hdr[5] == 2 {
		return nil, notFor("big-endian ELF")
	}
	if hdr[4] == 1 && binary.LittleEndian.Uint16(hdr[18:]) == emX8664 {
		return nil, notFor("32-bit ELF of the x32 ABI")
	}
	if hdr[4] == 1 {
		return nil, notFor("32-bit ELF")
	}
	if hdr[4] != 2 || hdr[5] != 1 {
		return nil, damaged("EI_CLASS %d, EI_DATA %d", hdr[4], hdr[5])
	}
	le := binary.LittleEndian
	if m := le.Uint16(hdr[18:]); m != emX8664 {
		return nil, notFor("ELF for another machine (e_machine %d)", m)
	}
	f.typ = le.Uint16(hdr[16:])
	if f.typ != etExec && f.typ != etDyn {
		return nil, notFor("ELF of type %d, neither a program nor a shared library", f.typ)
	}
	if n < ehdrSize {
		return nil, damaged("ends inside the ELF header (%d bytes)", f.size)
	}
	f.entry = le.Uint64(hdr[24:])
	f.phoff = le.Uint64(hdr[32:])
	f.shoff = le.Uint64(hdr[40:])
	if s := le.Uint16(hdr[54:]); s != phdrSize {
		return nil, damaged("e_phentsize %d, want %d", s, phdrSize)
	}
	if err := f.readProgs(int(le.Uint16(hdr[56:]))); err != nil {
		return f, err
	}
	f.shnum = int(le.Uint16(hdr[60:]))
	f.shstrndx = int(le.Uint16(hdr[62:]))
	if le.Uint16(hdr[58:]) == shdrSize {
		if err := f.readSections(); err != nil {
			return nil, err
		}
	}
	if err := f.readDynamic(); err != nil {
		return nil, err
	}
	return f, nil
}

func (f *elfFile) readProgs(n int) error {
	if n == 0 {
		return damaged("no program headers")
	}
	if n > maxPhnum {
		return damaged("%d program headers, at most %d", n, maxPhnum)
	}
	if !f.inFile(f.phoff, uint64(n)*phdrSize) {
		return damaged("%d program headers at offset %#x end beyond the file (%d bytes)", n, f.phoff, f.size)
	}
	b := make([]byte, n*phdrSize)
	if err := f.readAt(b, f.phoff); err != nil {
		return err
	}
	le := binary.LittleEndian
	var last *prog
	var tangled error
	f.progs = make([]prog, n)
	for i := range f.progs {
		e := b[i*phdrSize:]
		p := &f.progs[i]
		*p = prog{
			index: i, typ: le.Uint32(e), flags: le.Uint32(e[4:]),
			off: le.Uint64(e[8:]), vaddr: le.Uint64(e[16:]), paddr: le.Uint64(e[24:]),
			filesz: le.Uint64(e[32:]), memsz: le.Uint64(e[40:]), align: le.Uint64(e[48:]),
		}
		if p.typ != ptLoad {
			continue
		}
		switch {
		case !f.inFile(p.off, p.filesz):
			return damaged("segment %d (offset %#x, filesz %#x) ends beyond the file (%d bytes)", i, p.off, p.filesz, f.size)
		case p.filesz > p.memsz:
			return damaged("segment %d: filesz %#x exceeds memsz %#x", i, p.filesz, p.memsz)
		case p.vaddr > maxVaddr || p.memsz > maxVaddr-p.vaddr:
			return damaged("segment %d (vaddr %#x, memsz %#x) ends beyond the address space", i, p.vaddr, p.memsz)
		case last != nil && p.vaddr < last.vaddr+last.memsz:
			tangled = &skipError{fmt.Sprintf("damaged ELF: segment %d at vaddr %#x overlaps or precedes segment %d", i, p.vaddr, last.index), true, true}
		}
		last = p
	}
	if last == nil {
		return damaged("no PT_LOAD segment")
	}
	return tangled
}

// readSections reads the section headers. Damaged ones are no reason to skip a file that
// a loader runs without looking at them: f.sections stays nil then.
func (f *elfFile) readSections() error {
	n := uint64(f.shnum)
	if n == 0 || n > maxShnum || f.shoff == 0 || !f.inFile(f.shoff, n*shdrSize) {
		return nil
	}
	b := make([]byte, n*shdrSize)
	if err := f.readAt(b, f.shoff); err != nil {
		return err
	}
	le := binary.LittleEndian
	s := make([]section, n)
	for i := range s {
		e := b[i*shdrSize:]
		s[i] = section{
			index: i, nameOff: le.Uint32(e), typ: le.Uint32(e[4:]), flags: le.Uint64(e[8:]),
			addr: le.Uint64(e[16:]), off: le.Uint64(e[24:]), size: le.Uint64(e[32:]),
			link: le.Uint32(e[40:]), info: le.Uint32(e[44:]), align: le.Uint64(e[48:]), entsize: le.Uint64(e[56:]),
		}
		if s[i].typ != shtNobits && i > 0 && !f.inFile(s[i].off, s[i].size) {
			return nil
		}
	}
	if f.shstrndx == 0 || f.shstrndx >= len(s) || s[f.shstrndx].typ != shtStrtab {
		return nil
	}
	strs, err := f.bytes(s[f.shstrndx].off, min(s[f.shstrndx].size, math.MaxUint16))
	if err != nil {
		return err
	}
	for i := range s {
		s[i].name = cString(strs, uint64(s[i].nameOff))
	}
	f.sections = s
	return nil
}

func (f *elfFile) readDynamic() error {
	p := f.prog(ptDynamic)
	if p == nil {
		return nil
	}
	if !f.inFile(p.off, p.filesz) {
		return damaged("dynamic segment (offset %#x, filesz %#x) ends beyond the file (%d bytes)", p.off, p.filesz, f.size)
	}
	n := min(p.filesz/dynSize, maxDyn)
	b, err := f.bytes(p.off, n*dynSize)
	if err != nil {
		return err
	}
	ended := false
	for i := uint64(0); i < n; i++ {
		d := dyn{off: p.off + i*dynSize, tag: int64(binary.LittleEndian.Uint64(b[i*dynSize:])), val: binary.LittleEndian.Uint64(b[i*dynSize+8:])}
		switch {
		case d.tag != dtNull && !ended:
			f.dynamic = append(f.dynamic, d)
		case d.tag == dtNull && !ended:
			ended = true
			f.dynSpare = append(f.dynSpare, d.off)
		case d.tag == dtNull && d.val == 0:
			f.dynSpare = append(f.dynSpare, d.off)
		default:
			return nil // something stands behind DT_NULL: what follows is not spare
		}
	}
	return nil
}
