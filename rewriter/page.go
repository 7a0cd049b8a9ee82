// What stands in and behind the injected segment: its first page, and the section headers.

package rewriter

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"vfix.dev/vfix/rewriter/elf"
	"vfix.dev/vfix/shim"
)

// pageRoom is how many bytes of the first page the code leaves, and the record of the patches.
func pageRoom(code []byte, patches []Patch) int {
	at := recordAt(len(code)) + recordHead + recordEntry
	for i := range patches {
		if patches[i].Form != Left {
			at += recordSite + len(patches[i].Before)
		}
	}
	return max(0, elf.PageSize-at)
}

// recordEntry is the size of the record of the entry of an unwind table, in bytes.
const recordEntry = recordSite + 4

// recordAt is where in the page the record stands behind size bytes of code.
func recordAt(size int) int { return (size + recordAlign - 1) &^ (recordAlign - 1) }

// segmentPage returns the first page of a segment at vaddr: the code, its holes filled, the
// record, and what unwinders read. The error says that the record does not fit, so that no later
// vfix can take the patches back.
func segmentPage(code []byte, vaddr uint64, h hooks, note []byte, patches []Patch, u *unwinding) ([]byte, error) {
	b := make([]byte, elf.PageSize)
	at := recordAt(copy(b, code))
	layout := shim.Injected()
	fill := func(hole uint32, target uint64) {
		if target != 0 {
			binary.LittleEndian.PutUint32(b[hole:], uint32(target-(vaddr+uint64(hole)+4)))
		}
	}
	fill(layout.EntryHole, h.entry)
	fill(layout.InitHole, h.init)
	end := elf.PageSize - len(u.fde)
	copy(b[end:], u.fde)
	r, ok := record(note, vaddr, patches, u, end-at)
	if !ok {
		binary.LittleEndian.PutUint16(b[at+elf.PhdrSize:], math.MaxUint16) // no record that can be read
		return b, fmt.Errorf("%d call sites are more than the record of the injected segment holds: a later vfix cannot patch the file anew", len(patches))
	}
	copy(b[at:], r)
	return b, nil
}

// addSectionHeader covers the segment at off with a section. A file without section headers,
// or with damaged ones, stays as it is.
func (p *Plan) addSectionHeader(place room, u *unwinding, off uint64) error {
	f := p.file
	if f.Sections == nil || f.ShNum+2 >= elf.MaxShnum {
		return nil
	}
	tail, shoff, shnum, err := f.sectionTable(place, u, off+shim.SegmentSize, off)
	var skip roomError
	if errors.As(err, &skip) {
		p.Warnings = append(p.Warnings, "no section header covers the injected segment, strip would drop it: "+string(skip))
		return nil
	}
	if err != nil {
		return err
	}
	if f.was == nil && f.prelinkUndo() != 0 {
		p.Warnings = append(p.Warnings, "prelinked: prelink's undo data are set aside as "+prelinkAside+
			": prelink -u, which would take the injected segment away, refuses from now on")
	}
	p.tail = append(p.tail, tail...)
	p.editSectionCount(shoff, shnum)
	return nil
}

// editSectionCount has the ELF header name the section headers.
func (p *Plan) editSectionCount(shoff uint64, shnum int) {
	n := binary.LittleEndian.AppendUint16
	p.Edits = append(p.Edits,
		wordEdit(40, p.file.ShOff, shoff, "e_shoff"),
		Edit{Offset: 60, Old: n(nil, uint16(p.file.ShNum)), New: n(nil, uint16(shnum)), Why: "e_shnum"})
}
