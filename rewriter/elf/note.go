// Notes: the build ID and the ABI tag.

package elf

import (
	"bytes"
	"encoding/binary"
	"slices"
)

// PlainNotes reports whether b holds notes of GNU alone: ABI tag and build ID.
func PlainNotes(b []byte) bool {
	const ntABITag, ntBuildID, head = 1, 3, 16
	for len(b) > 0 {
		le := binary.LittleEndian
		if len(b) < head || le.Uint32(b) != 4 || string(b[12:16]) != "GNU\x00" {
			return false
		}
		if typ := le.Uint32(b[8:]); typ != ntABITag && typ != ntBuildID {
			return false
		}
		n := (uint64(le.Uint32(b[4:])) + 3) &^ 3
		if n > uint64(len(b)-head) {
			return false
		}
		b = b[head+n:]
	}
	return true
}

// BuildID returns the GNU build ID in hex, "" for none. Source of the note's layout: gABI,
// "Note Section"; NT_GNU_BUILD_ID is 3 (elf.h).
func (f *File) BuildID() string {
	for i := range f.Progs {
		p := &f.Progs[i]
		if p.Type != PTNote || !f.InFile(p.Off, p.Filesz) {
			continue
		}
		b, err := f.Bytes(p.Off, min(p.Filesz, maxNotes))
		if err != nil {
			return ""
		}
		if id := BuildID(b); id != "" {
			return id
		}
	}
	return ""
}

// maxNotes is how much of a PT_NOTE is searched for a build ID, in bytes.
const maxNotes = 64 << 10

// BuildID returns the GNU build ID in the content of a PT_NOTE, in hex, "" for none.
func BuildID(notes []byte) string {
	const head, ntGNUBuildID, maxID = 12, 3, 64
	le := func(b []byte) uint64 { return uint64(b[0]) | uint64(b[1])<<8 | uint64(b[2])<<16 | uint64(b[3])<<24 }
	up := func(n uint64) uint64 { return (n + 3) &^ 3 }
	for len(notes) >= head {
		namesz, descsz, typ := le(notes), le(notes[4:]), le(notes[8:])
		rest := notes[head:]
		if up(namesz)+up(descsz) > uint64(len(rest)) && up(namesz)+descsz > uint64(len(rest)) {
			return ""
		}
		name, desc := rest[:namesz], rest[up(namesz):up(namesz)+descsz]
		if typ == ntGNUBuildID && string(name) == "GNU\x00" && descsz > 0 && descsz <= maxID {
			return hexOf(desc)
		}
		notes = rest[min(up(namesz)+up(descsz), uint64(len(rest))):]
	}
	return ""
}

func hexOf(b []byte) string {
	const digits = "0123456789abcdef"
	out := make([]byte, 0, 2*len(b))
	for _, c := range b {
		out = append(out, digits[c>>4], digits[c&15])
	}
	return string(out)
}

// HasBuildID reports whether a PT_NOTE holds a build ID.
func (f *File) HasBuildID(p *Prog) bool {
	if !f.InFile(p.Off, p.Filesz) {
		return false
	}
	b, err := f.Bytes(p.Off, min(p.Filesz, maxNotes))
	return err == nil && BuildID(b) != ""
}

// MovableNotes returns the index of the PT_NOTE whose notes can move, -1 for none.
// They are at most so many bytes, the
// ABI tag and the build ID alone, nothing else lies among them, and nothing refers to them: no
// symbol, no relocation, and no 4 bytes of code that would be their address or their distance.
func (f *File) MovableNotes(most uint64) (int, error) {
	end := f.PhOff + uint64(len(f.Progs))*PhdrSize
	table := f.TableLoad()
	n := slices.IndexFunc(f.Progs, func(p Prog) bool { return p.Type == PTNote && p.Off == end })
	// What DT_RELR relocates is not looked at: linkers that know it came long after glibc 2.13.
	if f.Sections == nil || n < 0 || table < 0 || f.PhOff != EhdrSize || len(f.Progs) >= MaxPhnum || f.Dyn(DTRelr) != nil {
		return -1, nil
	}
	p := &f.Progs[n]
	hi := max(p.Off+p.Filesz, end+PhdrSize) // behind the notes, padding will do
	if p.Filesz > most || p.Filesz != p.Memsz || p.Align > 8 || p.Filesz%max(p.Align, 4) != 0 || !f.HasBuildID(p) {
		return -1, nil
	}
	if off, ok := f.Offset(p.Vaddr, p.Filesz); !ok || off != p.Off || f.Load(p.Vaddr) != &f.Progs[table] {
		return -1, nil
	}
	if load := &f.Progs[table]; !f.InFile(p.Off, hi-p.Off) || PageUp(load.Vaddr+hi-load.Off) > PageUp(load.Vaddr+load.Memsz) {
		return -1, nil
	}
	overlaps := func(off, size uint64) bool { return size > 0 && off < hi && off+size > p.Off }
	for i := range f.Progs {
		if i != n && i != table && overlaps(f.Progs[i].Off, f.Progs[i].Filesz) {
			return -1, nil
		}
	}
	for i := range f.Sections {
		s := &f.Sections[i]
		if i > 0 && s.Type != SHTNobits && overlaps(s.Off, s.Size) &&
			(s.Type != SHTNote || s.Off < p.Off || s.Off+s.Size > p.Off+p.Filesz || s.Addr-p.Vaddr != s.Off-p.Off) {
			return -1, nil
		}
	}
	b, err := f.Bytes(p.Off, hi-p.Off)
	if err != nil || !PlainNotes(b[:p.Filesz]) || len(bytes.Trim(b[p.Filesz:], "\x00")) > 0 {
		return -1, err
	}
	if referred, err := f.RefersTo(p.Vaddr, p.Vaddr+(hi-p.Off), end); referred || err != nil {
		return -1, err
	}
	return n, nil
}
