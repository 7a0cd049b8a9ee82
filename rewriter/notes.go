// Notes that make way for a program header: a file with a single PT_NOTE, right behind the table,
// keeps its build ID there.

package rewriter

import (
	"bytes"
	"encoding/binary"
	"slices"

	"vfix.dev/vfix/rewriter/elf"
	"vfix.dev/vfix/shim"
)

// The linker puts notes first, right behind the program headers. Nothing but the PT_NOTE and the
// section headers says where they are, so they move to the end of the injected segment, and the
// table grows over where they were. The state page is theirs as well: its first words change at
// load, and so it is in every core, with the build ID.
//
//	before                            after
//	0x040  10 program headers         0x040  11 program headers
//	0x270  build ID, ABI tag          …      12 bytes of the old ABI tag
//	0x2b8  .gnu.hash                  0x2b8  .gnu.hash
//	                                  0x181fbc  build ID, ABI tag
const maxMovedNotes = 512 // bytes, of the state page's 4,096

// movableNotes returns the index of the PT_NOTE whose notes can move, -1 for none. They are the
// ABI tag and the build ID alone, nothing else lies among them, and nothing refers to them: no
// symbol, no relocation, and no 4 bytes of code that would be their address or their distance.
func (f *file) movableNotes() (int, error) {
	end := f.PhOff + uint64(len(f.Progs))*elf.PhdrSize
	table := f.TableLoad()
	n := slices.IndexFunc(f.Progs, func(p elf.Prog) bool { return p.Type == elf.PTNote && p.Off == end })
	// What DT_RELR relocates is not looked at: linkers that know it came long after glibc 2.13.
	if f.Sections == nil || n < 0 || table < 0 || f.PhOff != elf.EhdrSize || len(f.Progs) >= elf.MaxPhnum || f.Dyn(elf.DTRelr) != nil {
		return -1, nil
	}
	p := &f.Progs[n]
	hi := max(p.Off+p.Filesz, end+elf.PhdrSize) // behind the notes, padding will do
	if p.Filesz > maxMovedNotes || p.Filesz != p.Memsz || p.Align > 8 || p.Filesz%max(p.Align, 4) != 0 || !f.HasBuildID(p) {
		return -1, nil
	}
	if off, ok := f.Offset(p.Vaddr, p.Filesz); !ok || off != p.Off || f.Load(p.Vaddr) != &f.Progs[table] {
		return -1, nil
	}
	if load := &f.Progs[table]; !f.InFile(p.Off, hi-p.Off) || elf.PageUp(load.Vaddr+hi-load.Off) > elf.PageUp(load.Vaddr+load.Memsz) {
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
		if i > 0 && s.Type != elf.SHTNobits && overlaps(s.Off, s.Size) &&
			(s.Type != elf.SHTNote || s.Off < p.Off || s.Off+s.Size > p.Off+p.Filesz || s.Addr-p.Vaddr != s.Off-p.Off) {
			return -1, nil
		}
	}
	b, err := f.Bytes(p.Off, hi-p.Off)
	if err != nil || !elf.PlainNotes(b[:p.Filesz]) || len(bytes.Trim(b[p.Filesz:], "\x00")) > 0 {
		return -1, err
	}
	if referred, err := f.refersTo(p.Vaddr, p.Vaddr+(hi-p.Off), end); referred || err != nil {
		return -1, err
	}
	return n, nil
}

// refersTo reports whether anything but the headers bytes before lo may refer to [lo, hi).
func (f *file) refersTo(lo, hi, headers uint64) (found bool, err error) {
	in := func(v uint64) bool { return v >= lo && v < hi }
	if err := f.EachRawSymbol(func(_ uint64, sym []byte) {
		found = found || in(binary.LittleEndian.Uint64(sym[8:])) && sym[4]&15 != elf.STTSection && binary.LittleEndian.Uint16(sym[6:]) != 0
	}); found || err != nil {
		return found, err
	}
	if err := f.EachRela(func(at uint64, _ uint32, addend uint64) { found = found || in(at) || in(addend) }); found || err != nil {
		return found, err
	}
	fixed := f.Type == elf.TypeExec
	for i := range f.Progs {
		seg := &f.Progs[i]
		if seg.Type != elf.PTLoad || seg.Filesz == 0 || seg.Flags&elf.PFX == 0 && !fixed {
			continue
		}
		err := f.Chunks(seg, func(b []byte, vaddr uint64, from, to int) {
			for i := from; i < to && i+4 <= len(b); i++ {
				if at := vaddr + uint64(i); at < lo && at >= lo-headers {
					continue
				}
				v := binary.LittleEndian.Uint32(b[i:])
				found = found || fixed && in(uint64(v))
				// Relative to rip: ModRM has mod 0 and rm 5; an immediate of so many bytes may follow.
				for _, imm := range [...]uint64{0, 1, 2, 4} {
					found = found || i > 0 && b[i-1]&0xc7 == 5 && in(vaddr+uint64(i)+4+imm+uint64(int64(int32(v))))
				}
			}
		})
		if found || err != nil {
			return found, err
		}
	}
	return false, nil
}

// notesAt returns where in the segment the notes that move begin: its end where none do.
func (f *file) notesAt(r room) uint64 {
	if r.spent != moved {
		return shim.SegmentSize
	}
	return shim.SegmentSize - f.Progs[r.notes].Filesz
}

// movedSections returns the indices of the sections of notes that move.
func (f *file) movedSections(r room) (all []int) {
	if r.spent != moved {
		return nil
	}
	p := &f.Progs[r.notes]
	for i, s := range f.Sections {
		if s.Type == elf.SHTNote && s.Off >= p.Off && s.Off+s.Size <= p.Off+p.Filesz {
			all = append(all, i)
		}
	}
	return all
}

// moveNotes copies the notes that move to the end of the state page, and has the symbols of
// their sections follow.
func (p *Plan) moveNotes(r room, state []byte) error {
	if r.spent != moved {
		return nil
	}
	f := p.file
	notes := &f.Progs[r.notes]
	b, err := f.Bytes(notes.Off, notes.Filesz)
	if err != nil {
		return err
	}
	copy(state[f.notesAt(r)-elf.PageSize:], b)
	return f.EachRawSymbol(func(off uint64, sym []byte) {
		v := binary.LittleEndian.Uint64(sym[8:])
		if sym[4]&15 == elf.STTSection && v >= notes.Vaddr && v < notes.Vaddr+notes.Filesz {
			p.Edits = append(p.Edits, wordEdit(off+8, v, v-notes.Vaddr+r.vaddr+f.notesAt(r), "section symbol"))
		}
	})
}
