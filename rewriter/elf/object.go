// Relocatable objects (.o, .ko), the input of linkers. They are examined as if they were linked, each section at
// its offset in the file, and never changed: only programs and libraries have what a patched site needs, a segment
// and a hook.

package elf

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"io"
	"slices"
)

// More of the ELF format, for objects. Source: System V gABI, chapter 4; the x86-64 psABI, table
// of relocation types.
const (
	TypeRel = 1
	// IdentSize is the number of bytes of a file that show its type.
	IdentSize = 18

	shnAbs = 0xfff1

	r64       = 1
	rPC32     = 2
	rPLT32    = 4
	rGOTPCRel = 9
	r32       = 10
	r32S      = 11
	rPC64     = 24
	rGOTPCX   = 41
	rRexGOTPX = 42

	// maxFixes is the maximum number of symbols and relocations of one object. The largest objects in known
	// libraries have below 200,000.
	maxFixes = 1 << 20
	// maxObject is the largest object that is examined, in bytes: it is in memory during the examination.
	maxObject = 1 << 30
	// outside is the distance behind the object of undefined symbols and .bss, in bytes.
	outside = 1 << 20
)

// IsObject reports whether head is the start of a relocatable 64-bit object.
func IsObject(head []byte) bool {
	return len(head) >= IdentSize && string(head[:6]) == "\x7fELF\x02\x01" && head[16] == TypeRel && head[17] == 0
}

// ParseObject reads the headers of an object. Its sections with content in memory become segments at vaddrs equal
// to their offsets.
func ParseObject(r io.ReaderAt, size int64) (*File, error) {
	f := &File{R: r, Size: uint64(size), Type: TypeExec}
	if size < EhdrSize {
		return nil, Damaged("ends inside the ELF header (%d bytes)", size)
	}
	if size > maxObject {
		return nil, Damaged("object of %d bytes, at most %d are examined", size, maxObject)
	}
	hdr := f.Bytes(0, EhdrSize)
	if f.failed != nil {
		return nil, f.failed
	}
	if m := binary.LittleEndian.Uint16(hdr[18:]); m != MachineX8664 {
		return nil, notFor(KindForeign, "ELF for another machine (e_machine %d)", m)
	}
	if f.readSections(hdr); f.failed != nil {
		return nil, f.failed
	}
	if f.ShNum == 0 && f.ShOff == 0 {
		return f, nil // it is empty
	}
	if f.Sections == nil {
		return nil, Damaged("section headers of an object")
	}
	return f, f.segments()
}

// segments makes a segment from each section.
func (f *File) segments() error {
	for i := range f.Sections {
		s := &f.Sections[i]
		s.Addr = 0
		if s.Flags&SHFAlloc == 0 || s.Type == SHTNobits || s.Size == 0 {
			continue
		}
		s.Addr = s.Off
		p := Prog{Type: PTLoad, Flags: PFR, Off: s.Off, Vaddr: s.Off, Filesz: s.Size, Memsz: s.Size}
		if s.Flags&SHFExecinstr != 0 {
			p.Flags |= PFX
		}
		if s.Flags&SHFWrite != 0 {
			p.Flags |= PFW
		}
		f.Progs = append(f.Progs, p)
	}
	slices.SortFunc(f.Progs, func(a, b Prog) int { return cmp.Compare(a.Off, b.Off) })
	for i := range f.Progs {
		f.Progs[i].Index = i
		if i > 0 && f.Progs[i].Off < f.Progs[i-1].Off+f.Progs[i-1].Filesz {
			return Damaged("sections overlap at offset %#x", f.Progs[i].Off)
		}
	}
	return nil
}

// Link sets symbols and relocated fields, in a copy of the object, to their values with each section at its
// offset.
func (f *File) Link() error {
	image := bytes.Clone(f.Bytes(0, f.Size))
	if f.failed != nil {
		return f.failed
	}
	f.R = Memory(image)
	le, entries := binary.LittleEndian, uint64(0)
	each := func(s *Section, size int, visit func(off uint64, e []byte)) error {
		n := s.Size / uint64(size)
		if entries += n; entries > maxFixes {
			return Damaged("object of more than %d symbols and relocations", maxFixes)
		}
		f.records(s.Off, n, size, visit)
		return nil
	}
	var values []uint64 // of the symbols, by their indices
	if t := first(f.Sections, func(s *Section) bool { return s.Type == SHTSymtab }); t != nil {
		if err := each(t, SymSize, func(at uint64, e []byte) {
			value, n := le.Uint64(e[8:]), le.Uint16(e[6:])
			switch {
			case n == shnAbs || len(values) == 0: // symbol 0 is unused
			case int(n) < len(f.Sections) && f.Sections[n].Addr != 0:
				value += f.Sections[n].Addr
			default:
				value = f.Size + outside
			}
			le.PutUint64(image[at+8:], value)
			values = append(values, value)
		}); err != nil {
			return err
		}
	}
	for i := range f.Sections {
		s := &f.Sections[i]
		if s.Type != SHTRela || int(s.info) >= len(f.Sections) || f.Sections[s.info].Addr == 0 {
			continue
		}
		target := &f.Sections[s.info]
		if err := each(s, RelaSize, func(_ uint64, e []byte) {
			at, symbol, value := le.Uint64(e), le.Uint32(e[12:]), le.Uint64(e[16:])
			if int64(symbol) < int64(len(values)) {
				value += values[symbol]
			}
			size := relocate(le.Uint32(e[8:]), target.Addr+at, &value, f.Size)
			if target.Size >= size && at <= target.Size-size {
				field := le.AppendUint64(nil, value)
				copy(image[target.Addr+at:], field[:size])
			}
		}); err != nil {
			return err
		}
	}
	return nil
}

// relocate converts S + A to the value of a field at an offset, and returns the size of the field in bytes; 0 for
// other types of relocations.
func relocate(typ uint32, at uint64, value *uint64, size uint64) uint64 {
	switch typ {
	case r64:
		return 8
	case rPC64:
		*value -= at
		return 8
	case rPC32, rPLT32:
		*value -= at
	case r32, r32S:
	case rGOTPCRel, rGOTPCX, rRexGOTPX:
		*value = size + outside - at
	default:
		return 0
	}
	return 4
}
