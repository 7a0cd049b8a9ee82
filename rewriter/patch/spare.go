// Which program header the injected segment takes.

package patch

import (
	"bytes"
	"encoding/binary"

	"vfix.dev/vfix/rewriter/elf"
)

// grown stands for an index if no program header is spent: the table grows by one.
const grown = -1

// spare chooses the program header to spend, the one that is missed least:
//
//   - PT_NULL, which nobody reads (gABI, "Program Header").
//   - a PT_NOTE without a build ID: the ABI tag, or properties that PT_GNU_PROPERTY also names.
//   - PT_PHDR of a dynamic ET_EXEC: loaders subtract its p_vaddr from AT_PHDR to learn where the
//     program was loaded (glibc, elf/rtld.c; musl, ldso/dynlink.c), which is 0 and what they
//     begin with. Of an ET_DYN with an interpreter it is the only word about that.
//   - none, where the table can grow in place, over padding.
//   - PT_INTERP of a library that nothing starts: only the kernel reads it, of what it executes.
//   - a PT_NOTE with the build ID.
//   - PT_PHDR of a library: ld.so finds the table by the segment that holds it.
//   - a PT_LOAD right behind another one, which takes its bytes in: one of both is code, the other
//     read-only data, and both are code then, as in files that linkers made until 2018.
//
// Notes do not move, in sections of their own: to move them, it would have to be proved that
// nothing refers to them, and tools that count on their place would break the file. The error is a roomError.
func (f *file) spare() (int, error) {
	best, bestCost := 0, 0
	offer := func(i, cost int) {
		if bestCost == 0 || cost < bestCost {
			best, bestCost = i, cost
		}
	}
	for i := range f.Progs {
		switch p := &f.Progs[i]; {
		case p.Type == elf.PTNull:
			offer(i, 1)
		case p.Type == elf.PTNote && !f.HasBuildID(p):
			offer(i, 2)
		case p.Type == elf.PTPhdr && f.Type == elf.TypeExec:
			offer(i, 3)
		case p.Type == elf.PTInterp && f.isLibrary():
			offer(i, 5)
		case p.Type == elf.PTNote:
			offer(i, 6)
		case p.Type == elf.PTPhdr && f.isLibrary():
			offer(i, 7)
		case f.joins(i):
			offer(i, 8)
		}
	}
	if bestCost == 0 || bestCost > 4 {
		ok, err := f.canGrow()
		if err != nil {
			return 0, err
		}
		if ok {
			offer(grown, 4)
		}
	}
	if bestCost == 0 {
		return 0, roomError("no program header to spend on a segment: no PT_NOTE, and no space behind the table")
	}
	return best, nil
}

// isLibrary reports whether only ld.so loads the file, on behalf of a program.
func (f *file) isLibrary() bool {
	return f.Type == elf.TypeDyn && f.Soname() != "" && f.Dyn(elf.DTNeeded) != nil && (f.Prog(elf.PTInterp) == nil || f.neverStarted())
}

// neverStarted reports whether a file with an interpreter cannot be started all the same, as
// libpthread of uClibc 0.9.33: linkers write DT_DEBUG into programs alone, and where nobody names an
// entry, ld takes the beginning of .text and lld 0. glibc's libc.so.6 has one that prints its version.
func (f *file) neverStarted() bool {
	text := f.Section(".text")
	return f.Dyn(elf.DTDebug) == nil && (f.Entry == 0 || text != nil && f.Entry == text.Addr)
}

// joins reports whether the PT_LOAD i can become a part of the one before it.
func (f *file) joins(i int) bool {
	if i == 0 || !f.isLibrary() {
		return false
	}
	a, b := &f.Progs[i-1], &f.Progs[i]
	return a.Type == elf.PTLoad && b.Type == elf.PTLoad && a.Flags|b.Flags == elf.PFR|elf.PFX && a.Flags&b.Flags == elf.PFR &&
		a.Filesz == a.Memsz && b.Filesz == b.Memsz && a.Align == b.Align &&
		b.Off-a.Off == b.Vaddr-a.Vaddr && b.Vaddr > a.Vaddr && b.Vaddr&^(elf.PageSize-1) == elf.PageUp(a.Vaddr+a.Memsz)
}

// canGrow reports whether the bytes behind the program header table are padding: zero, in no
// section and in no segment but one that is loaded from the table on. Bytes that are loaded
// are padding only if section headers say that nothing is there.
func (f *file) canGrow() (bool, error) {
	end := f.PhOff + uint64(len(f.Progs))*elf.PhdrSize
	if len(f.Progs) >= elf.MaxPhnum || f.PhOff != elf.EhdrSize || !f.InFile(end, elf.PhdrSize) {
		return false, nil
	}
	overlaps := func(off, size uint64) bool { return off < end+elf.PhdrSize && off+size > end }
	table := f.TableLoad()
	if table < 0 {
		return false, nil
	}
	load := &f.Progs[table]
	if elf.PageUp(load.Vaddr+end+elf.PhdrSize-load.Off) > elf.PageUp(load.Vaddr+load.Memsz) {
		return false, nil
	}
	for i := range f.Progs {
		p := &f.Progs[i]
		if overlaps(p.Off, p.Filesz) && (i != table || f.Sections == nil) {
			return false, nil
		}
		if p.Type == elf.PTLoad && i != table && p.Vaddr < load.Vaddr+end+elf.PhdrSize-load.Off && p.Vaddr+p.Memsz > load.Vaddr {
			return false, nil // the same page
		}
	}
	for _, s := range f.Sections {
		if s.Index > 0 && s.Type != elf.SHTNobits && overlaps(s.Off, s.Size) {
			return false, nil
		}
	}
	if f.ShNum > 0 && overlaps(f.ShOff, uint64(f.ShNum)*elf.ShdrSize) {
		return false, nil
	}
	b, err := f.Bytes(end, elf.PhdrSize)
	return err == nil && len(bytes.Trim(b, "\x00")) == 0, err
}

// coverTable has the segments that hold the table hold one more entry.
func (f *file) coverTable(progs []elf.Prog) {
	load := &progs[f.TableLoad()]
	if need := f.PhOff - load.Off + uint64(len(progs)+1)*elf.PhdrSize; load.Filesz < need {
		load.Filesz, load.Memsz = need, need
	}
	for i := range progs {
		if p := &progs[i]; p.Type == elf.PTPhdr {
			p.Filesz, p.Memsz = p.Filesz+elf.PhdrSize, p.Memsz+elf.PhdrSize
		}
	}
}

// editProgs changes the program headers.
func (p *Plan) editProgs(place room, off uint64) error {
	f := p.file
	table := f.progTable(place, off)
	old, err := f.Bytes(f.PhOff, uint64(len(table)))
	if err != nil {
		return err
	}
	p.Edits = append(p.Edits, Edit{Offset: f.PhOff, Old: old, New: table, Why: "program headers"})
	if place.spent == grown {
		n := binary.LittleEndian.AppendUint16
		p.Edits = append(p.Edits, Edit{Offset: 56, Old: n(nil, uint16(len(f.Progs))), New: n(nil, uint16(len(f.Progs)+1)), Why: "e_phnum"})
		return nil
	}
	if f.HasBuildID(&f.Progs[place.spent]) && f.Progs[place.spent].Type == elf.PTNote {
		p.Notes = append(p.Notes, "the build ID is no longer in a program header, only in its section: the file has no other header to spare")
	}
	return nil
}
