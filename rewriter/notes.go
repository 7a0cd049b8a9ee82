// Notes that make way for a program header: a file with a single PT_NOTE, right behind the table,
// keeps its build ID there.

package rewriter

import (
	"bytes"
	"encoding/binary"
	"slices"

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
	end := f.phoff + uint64(len(f.progs))*phdrSize
	table := f.tableLoad()
	n := slices.IndexFunc(f.progs, func(p prog) bool { return p.typ == ptNote && p.off == end })
	// What DT_RELR relocates is not looked at: linkers that know it came long after glibc 2.13.
	if f.sections == nil || n < 0 || table < 0 || f.phoff != ehdrSize || len(f.progs) >= maxPhnum || f.dyn(dtRelr) != nil {
		return -1, nil
	}
	p := &f.progs[n]
	hi := max(p.off+p.filesz, end+phdrSize) // behind the notes, padding will do
	if p.filesz > maxMovedNotes || p.filesz != p.memsz || p.align > 8 || p.filesz%max(p.align, 4) != 0 || !f.hasBuildID(p) {
		return -1, nil
	}
	if off, ok := f.offset(p.vaddr, p.filesz); !ok || off != p.off || f.load(p.vaddr) != &f.progs[table] {
		return -1, nil
	}
	if load := &f.progs[table]; !f.inFile(p.off, hi-p.off) || pageUp(load.vaddr+hi-load.off) > pageUp(load.vaddr+load.memsz) {
		return -1, nil
	}
	overlaps := func(off, size uint64) bool { return size > 0 && off < hi && off+size > p.off }
	for i := range f.progs {
		if i != n && i != table && overlaps(f.progs[i].off, f.progs[i].filesz) {
			return -1, nil
		}
	}
	for i := range f.sections {
		s := &f.sections[i]
		if i > 0 && s.typ != shtNobits && overlaps(s.off, s.size) &&
			(s.typ != shtNote || s.off < p.off || s.off+s.size > p.off+p.filesz || s.addr-p.vaddr != s.off-p.off) {
			return -1, nil
		}
	}
	b, err := f.bytes(p.off, hi-p.off)
	if err != nil || !plainNotes(b[:p.filesz]) || len(bytes.Trim(b[p.filesz:], "\x00")) > 0 {
		return -1, err
	}
	if referred, err := f.refersTo(p.vaddr, p.vaddr+(hi-p.off), end); referred || err != nil {
		return -1, err
	}
	return n, nil
}

// plainNotes reports whether b holds notes of GNU alone: ABI tag and build ID.
func plainNotes(b []byte) bool {
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

// refersTo reports whether anything but the headers bytes before lo may refer to [lo, hi).
func (f *file) refersTo(lo, hi, headers uint64) (found bool, err error) {
	in := func(v uint64) bool { return v >= lo && v < hi }
	if err := f.eachRawSymbol(func(_ uint64, sym []byte) {
		found = found || in(binary.LittleEndian.Uint64(sym[8:])) && sym[4]&15 != sttSection && binary.LittleEndian.Uint16(sym[6:]) != 0
	}); found || err != nil {
		return found, err
	}
	if err := f.eachRela(func(at uint64, _ uint32, addend uint64) { found = found || in(at) || in(addend) }); found || err != nil {
		return found, err
	}
	fixed := f.typ == etExec
	for i := range f.progs {
		seg := &f.progs[i]
		if seg.typ != ptLoad || seg.filesz == 0 || seg.flags&pfX == 0 && !fixed {
			continue
		}
		err := f.chunks(seg, func(b []byte, vaddr uint64, from, to int) {
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

// eachRawSymbol calls visit with each symbol of the section headers' tables, and its offset.
func (f *elfFile) eachRawSymbol(visit func(off uint64, sym []byte)) error {
	for _, s := range f.sections {
		if s.typ != shtSymtab && s.typ != shtDynsym {
			continue
		}
		const chunk = symChunk * symSize
		for off, left := s.off, s.size; left >= symSize; off, left = off+chunk, left-min(chunk, left) {
			b, err := f.bytes(off, min(chunk, left))
			if err != nil {
				return err
			}
			for i := uint64(0); i+symSize <= uint64(len(b)); i += symSize {
				visit(off+i, b[i:i+symSize])
			}
		}
	}
	return nil
}

// notesAt returns where in the segment the notes that move begin: its end where none do.
func (f *file) notesAt(r room) uint64 {
	if r.spent != moved {
		return shim.SegmentSize
	}
	return shim.SegmentSize - f.progs[r.notes].filesz
}

// movedSections returns the indices of the sections of notes that move.
func (f *file) movedSections(r room) (all []int) {
	if r.spent != moved {
		return nil
	}
	p := &f.progs[r.notes]
	for i, s := range f.sections {
		if s.typ == shtNote && s.off >= p.off && s.off+s.size <= p.off+p.filesz {
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
	notes := &f.progs[r.notes]
	b, err := f.bytes(notes.off, notes.filesz)
	if err != nil {
		return err
	}
	copy(state[f.notesAt(r)-pageSize:], b)
	return f.eachRawSymbol(func(off uint64, sym []byte) {
		v := binary.LittleEndian.Uint64(sym[8:])
		if sym[4]&15 == sttSection && v >= notes.vaddr && v < notes.vaddr+notes.filesz {
			p.Edits = append(p.Edits, wordEdit(off+8, v, v-notes.vaddr+r.vaddr+f.notesAt(r), "section symbol"))
		}
	})
}
