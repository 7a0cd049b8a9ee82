// Which program header the injected segment takes.

package rewriter

import (
	"bytes"
	"encoding/binary"
	"slices"
)

// What stands for an index where no program header is spent.
const (
	grown = -1 // the table grows by one
	moved = -2 // so it does, over notes that move (notes.go)
)

// spare chooses the program header to spend, the one that is missed least:
//
//   - PT_NULL, which nobody reads (gABI, "Program Header").
//   - a PT_NOTE without a build ID: the ABI tag, or properties that PT_GNU_PROPERTY names, too.
//   - PT_PHDR of a dynamic ET_EXEC: loaders subtract its p_vaddr from AT_PHDR to learn where the
//     program was loaded (glibc, elf/rtld.c; musl, ldso/dynlink.c), which is 0 and what they
//     begin with. Of an ET_DYN with an interpreter it is the only word about that.
//   - none, where the table can grow in place: over padding, or over notes that can move.
//   - a PT_NOTE with the build ID.
//
// The section of a note stays where it is. The error is a roomError.
func (f *file) spare() (int, error) {
	best, bestCost := 0, 0
	offer := func(i, cost int) {
		if bestCost == 0 || cost < bestCost {
			best, bestCost = i, cost
		}
	}
	for i := range f.progs {
		switch p := &f.progs[i]; {
		case p.typ == ptNull:
			offer(i, 1)
		case p.typ == ptNote && !f.hasBuildID(p):
			offer(i, 2)
		case p.typ == ptPhdr && f.typ == etExec:
			offer(i, 3)
		case p.typ == ptNote:
			offer(i, 6)
		}
	}
	if bestCost == 0 || bestCost > 4 {
		how, err := f.growth()
		if err != nil {
			return 0, err
		}
		if how != 0 {
			offer(how, 4)
		}
	}
	if bestCost == 0 {
		return 0, roomError("no program header to spend on a segment: no PT_NOTE, and no space behind the table")
	}
	return best, nil
}

// growth returns how the table can grow: grown, moved, or 0 where it cannot.
func (f *file) growth() (int, error) {
	if ok, err := f.canGrow(); ok || err != nil {
		return grown, err
	}
	if i, err := f.movableNotes(); i >= 0 || err != nil {
		return moved, err
	}
	return 0, nil
}

// hasBuildID reports whether a PT_NOTE holds a build ID.
func (f *elfFile) hasBuildID(p *prog) bool {
	if !f.inFile(p.off, p.filesz) {
		return false
	}
	b, err := f.bytes(p.off, min(p.filesz, maxNotes))
	return err == nil && BuildID(b) != ""
}

// canGrow reports whether the bytes behind the program header table are padding: zero, in no
// section and in no segment but one that is loaded from the table on. Bytes that are loaded
// are padding only where section headers say that nothing stands there.
func (f *file) canGrow() (bool, error) {
	end := f.phoff + uint64(len(f.progs))*phdrSize
	if len(f.progs) >= maxPhnum || f.phoff != ehdrSize || !f.inFile(end, phdrSize) {
		return false, nil
	}
	overlaps := func(off, size uint64) bool { return off < end+phdrSize && off+size > end }
	table := f.tableLoad()
	if table < 0 {
		return false, nil
	}
	load := &f.progs[table]
	if pageUp(load.vaddr+end+phdrSize-load.off) > pageUp(load.vaddr+load.memsz) {
		return false, nil
	}
	for i := range f.progs {
		p := &f.progs[i]
		if overlaps(p.off, p.filesz) && (i != table || f.sections == nil) {
			return false, nil
		}
		if p.typ == ptLoad && i != table && p.vaddr < load.vaddr+end+phdrSize-load.off && p.vaddr+p.memsz > load.vaddr {
			return false, nil // the same page
		}
	}
	for _, s := range f.sections {
		if s.index > 0 && s.typ != shtNobits && overlaps(s.off, s.size) {
			return false, nil
		}
	}
	if f.shnum > 0 && overlaps(f.shoff, uint64(f.shnum)*shdrSize) {
		return false, nil
	}
	b, err := f.bytes(end, phdrSize)
	return err == nil && len(bytes.Trim(b, "\x00")) == 0, err
}

// tableLoad returns the index of the segment that the program header table is loaded with, -1
// for none.
func (f *elfFile) tableLoad() int {
	size := uint64(len(f.progs)) * phdrSize
	return slices.IndexFunc(f.progs, func(p prog) bool {
		return p.typ == ptLoad && p.off <= f.phoff && p.filesz >= f.phoff-p.off+size && p.memsz == p.filesz
	})
}

// coverTable has the segments that hold the table hold one more entry.
func (f *file) coverTable(progs []prog) {
	load := &progs[f.tableLoad()]
	if need := f.phoff - load.off + uint64(len(progs)+1)*phdrSize; load.filesz < need {
		load.filesz, load.memsz = need, need
	}
	for i := range progs {
		if p := &progs[i]; p.typ == ptPhdr {
			p.filesz, p.memsz = p.filesz+phdrSize, p.memsz+phdrSize
		}
	}
}

// spentBy returns which program header of f a patched version of it has spent.
func (f *file) spentBy(after *file) int {
	if len(after.progs) > len(f.progs) {
		how, err := f.growth()
		if err != nil {
			return 0
		}
		return how
	}
	return slices.IndexFunc(f.progs, func(p prog) bool {
		return !slices.ContainsFunc(after.progs, func(q prog) bool {
			q.index = p.index
			return q == p
		})
	})
}

// editProgs changes the program headers, and returns the one that is spent: zeros where the table
// grows.
func (p *Plan) editProgs(place room, off uint64) (spent []byte, err error) {
	f := p.file
	table := f.progTable(place, off)
	old, err := f.bytes(f.phoff, uint64(len(table)))
	if err != nil {
		return nil, err
	}
	p.Edits = append(p.Edits, Edit{Offset: f.phoff, Old: old, New: table, Why: "program headers"})
	if place.spent < 0 {
		n := binary.LittleEndian.AppendUint16
		p.Edits = append(p.Edits, Edit{Offset: 56, Old: n(nil, uint16(len(f.progs))), New: n(nil, uint16(len(f.progs)+1)), Why: "e_phnum"})
		return make([]byte, phdrSize), nil
	}
	if f.hasBuildID(&f.progs[place.spent]) && f.progs[place.spent].typ == ptNote {
		p.Notes = append(p.Notes, "the build ID is no longer in a program header, only in its section: the file has no other header to spare")
	}
	return old[place.spent*phdrSize:][:phdrSize], nil
}
