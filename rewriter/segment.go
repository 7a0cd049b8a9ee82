// The injected segment: which program header it takes, and where in the file it goes.

package rewriter

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"

	"vfix.dev/vfix/shim"
)

// The injected segment: two pages, code then state, that take the program header of another
// (spare.go) or one more at the end of the table. The table keeps its place: strip, and kernels
// before 5.18 (which compute AT_PHDR from the first segment), break files whose table was moved.
//
//	before                          after
//	PHDR INTERP                     PHDR INTERP
//	LOAD  R-X 0x000000..0x17f9c4    LOAD  R-X 0x000000..0x17f9c4
//	LOAD  RW- 0x380738..0x389858    LOAD  R-X 0x180000..0x182000   ← injected
//	DYNAMIC                         LOAD  RW- 0x380738..0x389858
//	NOTE                            DYNAMIC
//	TLS …                           TLS …

// pageSize is how many bytes a page of memory has.
const pageSize = 1 << 12

// roomError is why no segment can be added to a file.
type roomError string

func (e roomError) Error() string { return string(e) }

// room is where the injected segment goes.
type room struct {
	spent  int    // index of the program header that is spent; or grown, or moved
	notes  int    // index of the PT_NOTE that moves; only where spent is moved
	before int    // index of the program header that the new one precedes, after the spent one is gone
	vaddr  uint64 // page-aligned
	hole   bool   // between two segments; else after the last
}

// findRoom chooses the program header and the vaddr. The error is a roomError.
func (f *file) findRoom() (room, error) {
	if n, err := f.overlay(); err != nil {
		return room{}, err
	} else if n > 0 {
		return room{}, roomError(fmt.Sprintf("%d bytes that are not the ELF file's own follow its end, and a reader may look for them from there", n))
	}
	spent, err := f.spare()
	if err != nil {
		return room{}, err
	}
	return f.roomFor(spent)
}

// roomFor chooses the vaddr where a program header is spent.
func (f *file) roomFor(spent int) (room, error) {
	r := room{spent: spent}
	if spent == moved {
		var err error
		if r.notes, err = f.movableNotes(); err != nil {
			return room{}, err
		}
	}
	var last *prog
	for i := range f.progs {
		p := &f.progs[i]
		if p.typ != ptLoad {
			continue
		}
		if last != nil && !r.hole {
			end := pageUp(last.vaddr + last.memsz)
			if start := f.mapStart(p); start >= end && start-end >= shim.SegmentSize {
				r.vaddr, r.before, r.hole = end, i, true
			}
		}
		last = p
	}
	if !r.hole {
		r.vaddr, r.before = pageUp(last.vaddr+last.memsz), last.index+1
		if r.vaddr > maxVaddr-shim.SegmentSize {
			return room{}, roomError("the address space ends behind the last segment")
		}
		if f.isInterpreter() && f.hasBSS() {
			return room{}, roomError("kernels before 6.7 clear a program interpreter's .bss only behind its last segment")
		}
	}
	if r.spent >= 0 && r.spent < r.before {
		r.before--
	}
	return r, nil
}

// mapStart returns the lowest vaddr that a loader covers for the PT_LOAD p. The kernel and
// later ld.so go by pages; ld.so of glibc 2.3 (elf/dl-load.c, mapstart) goes by p_align and
// would lay the head of the file over what stands below.
func (f *elfFile) mapStart(p *prog) uint64 {
	align := uint64(pageSize)
	if f.typ == etDyn && p.align > pageSize && p.align&(p.align-1) == 0 {
		align = p.align
	}
	return p.vaddr &^ (align - 1)
}

// isInterpreter reports whether the file may be what a PT_INTERP names: entered by the kernel
// beside a program, it can need no other library, and it has an entry point (e_entry is 0 where
// there is none: ELF gABI, ELF Header). Those kernels load it by a function of its own
// (fs/binfmt_elf.c, load_elf_interp), which knows one .bss: from the highest end of file
// content to the highest end of memory of all its segments.
func (f *elfFile) isInterpreter() bool {
	if f.entry == 0 || f.typ != etDyn || f.isProgram() || f.dyn(dtNeeded) != nil {
		return false
	}
	p := f.load(f.entry)
	return p != nil && p.flags&pfX != 0
}

// hasBSS reports whether some segment is longer in memory than in the file.
func (f *elfFile) hasBSS() bool {
	return slices.ContainsFunc(f.progs, func(p prog) bool { return p.typ == ptLoad && p.memsz > p.filesz })
}

func pageUp(n uint64) uint64 { return (n + pageSize - 1) &^ (pageSize - 1) }

// overlay returns how many bytes follow everything that the headers speak of, zero padding
// of less than a page aside: an archive appended to a self-extracting program.
func (f *elfFile) overlay() (uint64, error) {
	end := max(f.phoff+uint64(len(f.progs))*phdrSize, ehdrSize)
	for _, p := range f.progs {
		if p.filesz > 0 && f.inFile(p.off, p.filesz) {
			end = max(end, p.off+p.filesz)
		}
	}
	if n := uint64(f.shnum) * shdrSize; f.inFile(f.shoff, n) && f.shnum > 0 {
		end = max(end, f.shoff+n)
	}
	for _, s := range f.sections {
		if s.index > 0 && s.typ != shtNobits {
			end = max(end, s.off+s.size)
		}
	}
	rest := f.size - end
	if rest < pageSize {
		b, err := f.bytes(end, rest)
		if err != nil {
			return 0, err
		}
		if len(bytes.Trim(b, "\x00")) == 0 {
			return 0, nil
		}
	}
	return rest, nil
}

// progTable returns the bytes of the new program header table.
func (f *file) progTable(r room, off uint64) []byte {
	kept := slices.Clone(f.progs)
	if r.spent < 0 {
		f.coverTable(kept)
		if r.spent == moved {
			n := &kept[r.notes]
			n.off, n.vaddr, n.paddr = off+f.notesAt(r), r.vaddr+f.notesAt(r), r.vaddr+f.notesAt(r)
		}
	} else {
		kept = slices.Delete(kept, r.spent, r.spent+1)
	}
	kept = slices.Insert(kept, r.before, prog{
		typ: ptLoad, flags: pfR | pfX, off: off, vaddr: r.vaddr, paddr: r.vaddr,
		filesz: shim.SegmentSize, memsz: shim.SegmentSize, align: pageSize,
	})
	b := make([]byte, 0, len(kept)*phdrSize)
	le := binary.LittleEndian
	for _, p := range kept {
		b = le.AppendUint32(b, p.typ)
		b = le.AppendUint32(b, p.flags)
		for _, v := range []uint64{p.off, p.vaddr, p.paddr, p.filesz, p.memsz, p.align} {
			b = le.AppendUint64(b, v)
		}
	}
	return b
}

// injectedName is the name of the section that covers the segment; without one, strip would
// drop what no section covers.
const injectedName = ".vfix"

// maxSectionNames bounds the section names that are copied, in bytes.
const maxSectionNames = 1 << 24

// sectionTable returns what stands behind the segment in a file with section headers, and the
// offset and the number of the section headers: what unwinders read, then the section names and
// the section headers with one more for it and, of a file that is not patched yet, one for the
// segment. at is the offset of the first byte returned; off that of the segment.
func (f *file) sectionTable(r room, u *unwinding, at, off uint64) (tail []byte, shoff uint64, shnum int, err error) {
	names := f.sections[f.shstrndx]
	if names.size > maxSectionNames {
		return nil, 0, 0, roomError(fmt.Sprintf("section names of %d bytes", names.size))
	}
	strs, err := f.bytes(names.off, names.size)
	if err != nil {
		return nil, 0, 0, err
	}
	table, err := f.bytes(f.shoff, uint64(f.shnum)*shdrSize)
	if err != nil {
		return nil, 0, 0, err
	}
	le := binary.LittleEndian
	header := func(name string, flags, addr, off, size, align uint64) {
		table = le.AppendUint32(le.AppendUint32(table, uint32(len(strs))), shtProgbits)
		for _, v := range []uint64{flags, addr, off, size, 0 /* sh_link, sh_info */, align, 0} {
			table = le.AppendUint64(table, v)
		}
		strs = append(strs, name+"\x00"...)
	}
	place := func(i int, off, size uint64) {
		le.PutUint64(table[i*shdrSize+24:], off)
		le.PutUint64(table[i*shdrSize+32:], size)
	}
	if f.was == nil {
		header(injectedName, shfAlloc|shfExecinstr, r.vaddr, off, f.notesAt(r), pageSize)
		for _, i := range f.movedSections(r) {
			d := f.sections[i].off - f.progs[r.notes].off + f.notesAt(r)
			le.PutUint64(table[i*shdrSize+16:], r.vaddr+d)
			le.PutUint64(table[i*shdrSize+24:], off+d)
		}
		if undo := f.prelinkUndo(); undo != 0 {
			le.PutUint32(table[undo*shdrSize:], uint32(len(strs)))
			strs = append(strs, prelinkAside+"\x00"...)
		}
	}
	frames, old, err := f.debugFrame()
	if err != nil {
		return nil, 0, 0, err
	}
	if u != nil && old >= 0 {
		tail = u.debugFrame(frames)
		if old > 0 {
			place(old, at, uint64(len(tail)))
		} else {
			header(debugFrame, 0, 0, at, uint64(len(tail)), 8)
		}
	}
	place(f.shstrndx, at+uint64(len(tail)), uint64(len(strs)))
	tail = append(tail, strs...)
	for (at+uint64(len(tail)))%8 != 0 {
		tail = append(tail, 0)
	}
	return append(tail, table...), at + uint64(len(tail)), len(table) / shdrSize, nil
}

const (
	debugFrame = ".debug_frame"
	// maxDebugFrame bounds a section .debug_frame that is copied, in bytes.
	maxDebugFrame = 1 << 24
)

// debugFrame returns the content of the section .debug_frame and its index: 0 where there is
// none, -1 where nothing can be added to it.
func (f *file) debugFrame() (b []byte, index int, err error) {
	s := f.section(debugFrame)
	if s == nil {
		return nil, 0, nil
	}
	if s.typ != shtProgbits || s.flags != 0 || s.size > maxDebugFrame {
		return nil, -1, nil
	}
	b, err = f.bytes(s.off, s.size)
	return b, s.index, err
}
