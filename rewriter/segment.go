// The injected segment: which program header it takes, and where in the file it goes.

package rewriter

import (
	"encoding/binary"
	"fmt"
	"slices"

	"vfix.dev/vfix/rewriter/elf"
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
	if n, err := f.Overlay(); err != nil {
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
		if r.notes, err = f.MovableNotes(maxMovedNotes); err != nil {
			return room{}, err
		}
	}
	var last *elf.Prog
	for i := range f.Progs {
		p := &f.Progs[i]
		if p.Type != elf.PTLoad {
			continue
		}
		if last != nil && !r.hole {
			end := elf.PageUp(last.Vaddr + last.Memsz)
			if start := f.MapStart(p); start >= end && start-end >= shim.SegmentSize {
				r.vaddr, r.before, r.hole = end, i, true
			}
		}
		last = p
	}
	if !r.hole {
		r.vaddr, r.before = elf.PageUp(last.Vaddr+last.Memsz), last.Index+1
		if r.vaddr > elf.MaxVaddr-shim.SegmentSize {
			return room{}, roomError("the address space ends behind the last segment")
		}
		if f.IsInterpreter() && f.HasBSS() {
			return room{}, roomError("kernels before 6.7 clear a program interpreter's .bss only behind its last segment")
		}
	}
	if r.spent >= 0 && r.spent < r.before {
		r.before--
	}
	return r, nil
}

// progTable returns the bytes of the new program header table.
func (f *file) progTable(r room, off uint64) []byte {
	kept := slices.Clone(f.Progs)
	if r.spent < 0 {
		f.coverTable(kept)
		if r.spent == moved {
			n := &kept[r.notes]
			n.Off, n.Vaddr, n.Paddr = off+f.notesAt(r), r.vaddr+f.notesAt(r), r.vaddr+f.notesAt(r)
		}
	} else {
		if p := kept[r.spent]; p.Type == elf.PTLoad {
			into := &kept[r.spent-1]
			into.Filesz, into.Flags = p.Off+p.Filesz-into.Off, into.Flags|p.Flags
			into.Memsz = into.Filesz
		}
		kept = slices.Delete(kept, r.spent, r.spent+1)
	}
	kept = slices.Insert(kept, r.before, elf.Prog{
		Type: elf.PTLoad, Flags: elf.PFR | elf.PFX, Off: off, Vaddr: r.vaddr, Paddr: r.vaddr,
		Filesz: shim.SegmentSize, Memsz: shim.SegmentSize, Align: elf.PageSize,
	})
	b := make([]byte, 0, len(kept)*elf.PhdrSize)
	le := binary.LittleEndian
	for _, p := range kept {
		b = le.AppendUint32(b, p.Type)
		b = le.AppendUint32(b, p.Flags)
		for _, v := range []uint64{p.Off, p.Vaddr, p.Paddr, p.Filesz, p.Memsz, p.Align} {
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
	names := f.Sections[f.ShStrNdx]
	if names.Size > maxSectionNames {
		return nil, 0, 0, roomError(fmt.Sprintf("section names of %d bytes", names.Size))
	}
	strs, err := f.Bytes(names.Off, names.Size)
	if err != nil {
		return nil, 0, 0, err
	}
	table, err := f.Bytes(f.ShOff, uint64(f.ShNum)*elf.ShdrSize)
	if err != nil {
		return nil, 0, 0, err
	}
	le := binary.LittleEndian
	header := func(name string, flags, addr, off, size, align uint64) {
		table = le.AppendUint32(le.AppendUint32(table, uint32(len(strs))), elf.SHTProgbits)
		for _, v := range []uint64{flags, addr, off, size, 0 /* sh_link, sh_info */, align, 0} {
			table = le.AppendUint64(table, v)
		}
		strs = append(strs, name+"\x00"...)
	}
	place := func(i int, off, size uint64) {
		le.PutUint64(table[i*elf.ShdrSize+24:], off)
		le.PutUint64(table[i*elf.ShdrSize+32:], size)
	}
	if f.was == nil {
		header(injectedName, elf.SHFAlloc|elf.SHFExecinstr, r.vaddr, off, f.notesAt(r), elf.PageSize)
		for _, i := range f.movedSections(r) {
			d := f.Sections[i].Off - f.Progs[r.notes].Off + f.notesAt(r)
			le.PutUint64(table[i*elf.ShdrSize+16:], r.vaddr+d)
			le.PutUint64(table[i*elf.ShdrSize+24:], off+d)
		}
		if undo := f.prelinkUndo(); undo != 0 {
			le.PutUint32(table[undo*elf.ShdrSize:], uint32(len(strs)))
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
	place(f.ShStrNdx, at+uint64(len(tail)), uint64(len(strs)))
	tail = append(tail, strs...)
	for (at+uint64(len(tail)))%8 != 0 {
		tail = append(tail, 0)
	}
	return append(tail, table...), at + uint64(len(tail)), len(table) / elf.ShdrSize, nil
}

const (
	debugFrame = ".debug_frame"
	// maxDebugFrame bounds a section .debug_frame that is copied, in bytes.
	maxDebugFrame = 1 << 24
)

// debugFrame returns the content of the section .debug_frame and its index: 0 where there is
// none, -1 where nothing can be added to it.
func (f *file) debugFrame() (b []byte, index int, err error) {
	s := f.Section(debugFrame)
	if s == nil {
		return nil, 0, nil
	}
	if s.Type != elf.SHTProgbits || s.Flags != 0 || s.Size > maxDebugFrame {
		return nil, -1, nil
	}
	b, err = f.Bytes(s.Off, s.Size)
	return b, s.Index, err
}
