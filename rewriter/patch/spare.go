// The program header that the injected segment takes.

package patch

import (
	"bytes"
	"encoding/binary"

	"vfix.dev/vfix/rewriter/elf"
)

// grown is used in place of an index if no program header is replaced: the table grows by one.
const grown = -1

// spare chooses the program header to replace, by the cost of its loss:
//
//   - PT_NULL, which is never read (gABI, "Program Header").
//   - a PT_NOTE without a build ID: the ABI tag, or properties that PT_GNU_PROPERTY also has.
//   - PT_PHDR of a dynamic ET_EXEC: loaders subtract its p_vaddr from AT_PHDR to compute the
//     load address (glibc, elf/rtld.c; musl, ldso/dynlink.c), which is 0, their initial value.
//     An ET_DYN with an interpreter needs it.
//   - none, if the table can grow in place, over padding.
//   - PT_INTERP of a library that is never started: only the kernel reads it, from what it executes.
//   - a PT_NOTE with the build ID.
//   - PT_PHDR of a library: ld.so finds the table by its segment.
//   - a PT_LOAD directly after another one, which takes over its bytes: one of them is code, the
//     other read-only data, and both are then code, as in files from linkers before 2018.
//
// Notes with sections of their own are not moved: it would have to be proved that nothing refers to them, and
// tools that rely on their place would break the file. The error is a roomError.
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
	if f.canGrow() {
		offer(grown, 4)
	}
	if bestCost == 0 {
		return 0, roomError("no program header to spend on a segment: no PT_NOTE, and no space behind the table")
	}
	return best, nil
}

// isLibrary reports whether only ld.so loads the file, for a program.
func (f *file) isLibrary() bool {
	return f.Type == elf.TypeDyn && f.Soname() != "" && f.Dyn(elf.DTNeeded) != nil && (f.Prog(elf.PTInterp) == nil || f.neverStarted())
}

// neverStarted reports whether a file with an interpreter cannot be started nevertheless, as libpthread of uClibc
// 0.9.33: linkers add DT_DEBUG only to programs, and without an entry symbol, ld sets the entry to the start of
// .text and lld to 0. glibc's libc.so.6 has an entry, which prints its version.
func (f *file) neverStarted() bool {
	text := f.Section(".text")
	return f.Dyn(elf.DTDebug) == nil && (f.Entry == 0 || text != nil && f.Entry == text.Addr)
}

// joins reports whether the PT_LOAD i can become a part of the previous one.
func (f *file) joins(i int) bool {
	if i == 0 || !f.isLibrary() {
		return false
	}
	a, b := &f.Progs[i-1], &f.Progs[i]
	return a.Type == elf.PTLoad && b.Type == elf.PTLoad && a.Flags|b.Flags == elf.PFR|elf.PFX && a.Flags&b.Flags == elf.PFR &&
		a.Filesz == a.Memsz && b.Filesz == b.Memsz && a.Align == b.Align &&
		b.Off-a.Off == b.Vaddr-a.Vaddr && b.Vaddr&^(elf.PageSize-1) == elf.PageUp(a.Vaddr+a.Memsz)
}

// canGrow reports whether the bytes behind the program header table are padding: zero, in no section, and in no
// segment except one that is loaded from the table on. Loaded bytes are padding only if section headers show that
// no section has them.
func (f *file) canGrow() bool {
	end := f.PhOff + uint64(len(f.Progs))*elf.PhdrSize
	if len(f.Progs) >= elf.MaxPhnum || f.PhOff != elf.EhdrSize || !f.InFile(end, elf.PhdrSize) {
		return false
	}
	overlaps := func(off, size uint64) bool { return off < end+elf.PhdrSize && off+size > end }
	table := f.TableLoad()
	if table < 0 {
		return false
	}
	load := &f.Progs[table]
	if elf.PageUp(load.Vaddr+end+elf.PhdrSize-load.Off) > elf.PageUp(load.Vaddr+load.Memsz) {
		return false
	}
	for i := range f.Progs {
		p := &f.Progs[i]
		if overlaps(p.Off, p.Filesz) && (i != table || f.Sections == nil) {
			return false
		}
		if p.Type == elf.PTLoad && i != table && p.Vaddr < load.Vaddr+end+elf.PhdrSize-load.Off && p.Vaddr+p.Memsz > load.Vaddr {
			return false // the same page
		}
	}
	for _, s := range f.Sections {
		if s.Type != elf.SHTNobits && overlaps(s.Off, s.Size) {
			return false
		}
	}
	return !overlaps(f.ShOff, uint64(f.ShNum)*elf.ShdrSize) && len(bytes.Trim(f.Bytes(end, elf.PhdrSize), "\x00")) == 0
}

// coverTable extends the segments with the table by one entry.
func (f *file) coverTable(progs []elf.Prog) {
	load := &progs[f.TableLoad()]
	need := f.PhOff - load.Off + uint64(len(progs)+1)*elf.PhdrSize
	load.Filesz, load.Memsz = max(load.Filesz, need), max(load.Memsz, need)
	for i := range progs {
		if p := &progs[i]; p.Type == elf.PTPhdr {
			p.Filesz, p.Memsz = p.Filesz+elf.PhdrSize, p.Memsz+elf.PhdrSize
		}
	}
}

// editProgs changes the program headers.
func (p *Plan) editProgs(place room, off uint64) {
	f := p.file
	table := f.progTable(place, off)
	old := f.Bytes(f.PhOff, uint64(len(table)))
	p.Edits = append(p.Edits, Edit{Offset: f.PhOff, Old: old, New: table, Why: "program headers"})
	if place.spent == grown {
		n := binary.LittleEndian.AppendUint16
		p.Edits = append(p.Edits, Edit{Offset: 56, Old: n(nil, uint16(len(f.Progs))), New: n(nil, uint16(len(f.Progs)+1)), Why: "e_phnum"})
		return
	}
	if f.HasBuildID(&f.Progs[place.spent]) && f.Progs[place.spent].Type == elf.PTNote {
		p.Notes = append(p.Notes, "the build ID is no longer in a program header, only in its section: the file has no other header to spare")
	}
}
