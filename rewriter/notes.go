// Notes that make way for a program header: a file with a single PT_NOTE, right behind the table,
// keeps its build ID there.

package rewriter

import (
	"encoding/binary"

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
