// Relocatable objects (.o, .ko): what a linker has not made a program of. They are examined as if
// one had, each section at the offset that it has in the file, and never changed: what a patched
// site needs, a segment and a hook, only programs and libraries have.

package elf

import (
	"cmp"
	"encoding/binary"
	"io"
	"math"
	"slices"
	"sort"
)

// More of the ELF format, for objects. Source: System V gABI, chapter 4; the x86-64 psABI, table
// of relocation types.
const (
	TypeRel = 1
	// IdentSize is how many bytes of a file show its type.
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

	// maxFixes bounds the symbols and relocations of one object. The largest objects that
	// real libraries hold have below 200,000.
	maxFixes = 1 << 20
	// outside is how far behind the object undefined symbols and .bss lie, in bytes.
	outside = 1 << 20
)

// fix is a field that a linker fills in.
type fix struct {
	off  uint64
	size uint8 // 4 or 8
	val  uint64
}

// linked is an object with its fields filled in. The fixes are in ascending order of their offset.
type linked struct {
	r     io.ReaderAt
	fixes []fix
}

func (l *linked) ReadAt(b []byte, off int64) (int, error) {
	n, err := l.r.ReadAt(b, off)
	const most = 8 // bytes of a field
	i := sort.Search(len(l.fixes), func(i int) bool { return int64(l.fixes[i].off)+most > off })
	for ; i < len(l.fixes) && int64(l.fixes[i].off) < off+int64(n); i++ {
		var field [most]byte
		binary.LittleEndian.PutUint64(field[:], l.fixes[i].val)
		for j, c := range field[:l.fixes[i].size] {
			if at := int64(l.fixes[i].off) + int64(j) - off; at >= 0 && at < int64(n) {
				b[at] = c
			}
		}
	}
	return n, err
}

// IsObject reports whether the first bytes of a file are those of a relocatable 64-bit object.
func IsObject(head []byte) bool {
	return len(head) >= IdentSize && string(head[:6]) == "\x7fELF\x02\x01" && head[16] == TypeRel && head[17] == 0
}

// ParseObject reads the headers of an object. Its sections that have content in memory become
// segments whose vaddr is their offset.
func ParseObject(r io.ReaderAt, size int64) (*File, error) {
	f := &File{R: r, Size: uint64(size), Type: TypeExec}
	if size < EhdrSize {
		return nil, Damaged("ends inside the ELF header (%d bytes)", size)
	}
	if size > math.MaxInt32-outside {
		return nil, Damaged("object of %d bytes, at most %d are examined", size, math.MaxInt32-outside)
	}
	hdr, err := f.peek(0, EhdrSize)
	if err != nil {
		return nil, err
	}
	if m := binary.LittleEndian.Uint16(hdr[18:]); m != MachineX8664 {
		return nil, notFor(KindForeign, "ELF for another machine (e_machine %d)", m)
	}
	if err := f.readSections(hdr); err != nil {
		return nil, err
	}
	if f.ShNum == 0 && f.ShOff == 0 {
		return f, nil // nothing in it
	}
	if f.Sections == nil {
		return nil, Damaged("section headers of an object")
	}
	return f, f.segments()
}

// segments makes a segment of each section.
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

// Relocations returns the tables of relocations for sections in memory.
func (f *File) Relocations() []*Section {
	var all []*Section
	for i := range f.Sections {
		s := &f.Sections[i]
		if s.Type == SHTRela && int(s.info) < len(f.Sections) && f.Sections[s.info].Addr != 0 {
			all = append(all, s)
		}
	}
	return all
}

// Link gives symbols and relocated fields the values that they have if each section lies at its
// offset.
func (f *File) Link() error {
	l := &linked{r: f.R}
	values, err := f.place(l)
	if err != nil {
		return err
	}
	for _, s := range f.Relocations() {
		target := &f.Sections[s.info]
		if uint64(len(l.fixes))+s.Size/RelaSize > maxFixes {
			return Damaged("object of more than %d symbols and relocations", maxFixes)
		}
		le := binary.LittleEndian
		err := f.records(s.Off, s.Size, RelaSize, func(_ uint64, e []byte) {
			value := uint64(0)
			if symbol := le.Uint32(e[12:]); int64(symbol) < int64(len(values)) {
				value = values[symbol]
			}
			x, ok := relocate(le.Uint32(e[8:]), target.Addr, le.Uint64(e), value, le.Uint64(e[16:]), f.Size)
			if ok && target.Size >= uint64(x.size) && x.off-target.Addr <= target.Size-uint64(x.size) {
				l.fixes = append(l.fixes, x)
			}
		})
		if err != nil {
			return err
		}
	}
	slices.SortStableFunc(l.fixes, func(a, b fix) int { return cmp.Compare(a.off, b.off) })
	f.R = l
	return nil
}

// relocate returns the field at offset r_offset of the section at addr.
func relocate(typ uint32, addr, at, value, addend, size uint64) (fix, bool) {
	x := fix{off: addr + at, size: 4, val: value + addend}
	switch typ {
	case r64:
		x.size = 8
	case rPC64:
		x.size = 8
		x.val -= x.off
	case rPC32, rPLT32:
		x.val -= x.off
	case r32, r32S:
	case rGOTPCRel, rGOTPCX, rRexGOTPX:
		x.val = size + outside - x.off
	default:
		return fix{}, false
	}
	return x, at < size
}

// place gives each symbol the value that it has, and returns all by their number.
func (f *File) place(l *linked) (values []uint64, err error) {
	t := first(f.Sections, func(s *Section) bool { return s.Type == SHTSymtab })
	if t == nil {
		return nil, nil
	}
	if t.Size/SymSize > maxFixes {
		return nil, Damaged("object of more than %d symbols and relocations", maxFixes)
	}
	le := binary.LittleEndian
	err = f.records(t.Off, t.Size, SymSize, func(at uint64, e []byte) {
		value, n := le.Uint64(e[8:]), le.Uint16(e[6:])
		if n != shnAbs && len(values) > 0 { // number 0 is not a symbol
			if n != 0 && int(n) < len(f.Sections) && f.Sections[n].Addr != 0 {
				value += f.Sections[n].Addr
			} else {
				value = f.Size + outside
			}
			l.fixes = append(l.fixes, fix{at + 8, 8, value})
		}
		values = append(values, value)
	})
	return values, err
}
