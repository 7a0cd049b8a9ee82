// The injected segment: its program header, and its place in the file.

package patch

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"

	"vfix.dev/vfix/rewriter/elf"
	"vfix.dev/vfix/shim"
)

// The injected segment has two pages, code then state. It takes the program header of another segment (spare.go)
// or a new one at the end of the table. The table does not move: strip, and kernels before 5.18 (which compute
// AT_PHDR from the first segment), break files with a moved table.
//
//	before                          after
//	PHDR INTERP                     PHDR INTERP
//	LOAD  R-X 0x000000..0x17f9c4    LOAD  R-X 0x000000..0x17f9c4
//	LOAD  RW- 0x380738..0x389858    LOAD  R-X 0x180000..0x182000   ← injected
//	DYNAMIC                         LOAD  RW- 0x380738..0x389858
//	NOTE                            DYNAMIC
//	TLS …                           TLS …

// roomError is why a file has no room for a segment.
type roomError string

func (e roomError) Error() string { return string(e) }

// room is the place of the injected segment.
type room struct {
	spent  int    // index of the program header that is replaced, or grown
	before int    // index of the program header that the new one precedes, after the replaced one is removed
	vaddr  uint64 // page-aligned
	hole   bool   // between two segments; otherwise after the last
}

// findRoom chooses the program header and the vaddr. It returns a roomError if there is no room.
func (f *file) findRoom() (room, error) {
	if n := f.Overlay(); n > 0 {
		return room{}, roomError(fmt.Sprintf("%d bytes that are not the ELF file's own follow its end, and a reader may look for them from there", n))
	}
	if name := f.Payload(); name != "" {
		return room{}, roomError(fmt.Sprintf("section %s has data of the program's own, and it may look for them from the end of the file", name))
	}
	if err := f.Sound(); err != nil {
		return room{}, roomError(err.Error())
	}
	spent, err := f.spare()
	if err != nil {
		return room{}, err
	}
	r := room{spent: spent}
	var last *elf.Prog
	for i := range f.Progs {
		p := &f.Progs[i]
		if p.Type != elf.PTLoad {
			continue
		}
		if last != nil && !r.hole {
			end := elf.PageUp(last.Vaddr + last.Memsz)
			if f.MapStart(p) >= end+shim.SegmentSize {
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
	if r.spent < r.before {
		r.before--
	}
	return r, nil
}

// progTable returns the bytes of the new program header table.
func (f *file) progTable(r room, off uint64) []byte {
	kept := slices.Clone(f.Progs)
	kept = slices.Delete(kept, r.spent, r.spent+1)
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

// injectedName is the name of the section for the segment, without which strip would drop it. movedName is the new
// name of a section whose content has moved to the end of the file.
const (
	injectedName = ".vfix"
	movedName    = ".vfix.moved"
	debugFrame   = ".debug_frame"
)

// prelink (of CentOS 5 and 6) keeps the headers of a library from before it gave it a fixed address in a section, which
// it finds by its name (src/undo.c, prelink_undo). They do not have the injected segment, which the patched sites call,
// so the name is changed: prelink -u refuses, and prelink --verify outputs the file unchanged. ld.so's data stay valid.
const (
	prelinkUndo  = ".gnu.prelink_undo"
	prelinkAside = ".vfix.prelink_undo"
)

// maxCopied is the maximum size of the section names, and of a section .debug_frame, that are copied, in bytes.
const maxCopied = 1 << 24

// addSections adds a section for the segment at off, and the descriptions of the trampolines for tools that read
// sections. A file without section headers, or with damaged ones, gets none. The headers remain in the order of
// their offsets, on which patchelf and dwz rely: new ones are last, and a moved section leaves an empty one in its
// place.
func (p *Plan) addSections(place room, u *unwinding, off uint64) {
	f := p.file
	if f.ShBeyond { // appended bytes would be read as section headers, or as a section
		p.setSections(0, 0, 0)
	}
	s := f.sectionTable()
	if s == nil {
		return
	}
	s.add(injectedName, elf.SHFAlloc|elf.SHFExecinstr, place.vaddr, off, shim.SegmentSize, elf.PageSize)
	if undo := f.Section(prelinkUndo); undo != nil {
		s.rename(undo.Index, prelinkAside)
		p.Consequences = append(p.Consequences, "prelink -u will no longer work on this file: it would take the patch away")
	}
	at := off + shim.SegmentSize
	frames, old := f.debugFrame()
	if old >= 0 {
		frames = u.debugFrame(frames)
		if old > 0 {
			s.move(old, at, uint64(len(frames)))
		} else {
			s.add(debugFrame, 0, 0, at, uint64(len(frames)), 8)
		}
		p.Tail = append(p.Tail, frames...)
		at += uint64(len(frames))
	}
	names := s.move(f.ShStrNdx, at, 0)
	binary.LittleEndian.PutUint64(s.header(names)[32:], uint64(len(s.names)))
	p.Tail = append(p.Tail, s.names...)
	for at += uint64(len(s.names)); at%8 != 0; at++ {
		p.Tail = append(p.Tail, 0)
	}
	p.Tail = append(p.Tail, s.table...)
	p.setSections(at, s.count(), names)
}

// setSections sets the table of section headers in the ELF header: its offset, the number of headers, and the
// index of the names.
func (p *Plan) setSections(at uint64, count, names int) {
	n, f := binary.LittleEndian.AppendUint16, p.file
	p.Edits = append(p.Edits,
		wordEdit(40, f.ShOff, at, "e_shoff"),
		Edit{Offset: 60, Old: n(n(nil, uint16(f.ShNum)), uint16(f.ShStrNdx)), New: n(n(nil, uint16(count)), uint16(names)), Why: "e_shnum and e_shstrndx"})
}

// sectionTable is the section headers of a file, and their names, to which others are added.
type sectionTable struct{ table, names []byte }

// sectionTable returns the file's section headers; nil if it has none, or more than any linker writes.
func (f *file) sectionTable() *sectionTable {
	if f.Sections == nil || f.ShNum+4 > elf.MaxShnum || f.Sections[f.ShStrNdx].Size > maxCopied {
		return nil
	}
	names := f.Sections[f.ShStrNdx]
	return &sectionTable{bytes.Clone(f.Bytes(f.ShOff, uint64(f.ShNum)*elf.ShdrSize)), f.Bytes(names.Off, names.Size)}
}

func (s *sectionTable) count() int { return len(s.table) / elf.ShdrSize }

func (s *sectionTable) header(i int) []byte { return s.table[i*elf.ShdrSize:][:elf.ShdrSize] }

func (s *sectionTable) rename(i int, name string) {
	at := bytes.Index(s.names, []byte("\x00"+name+"\x00")) + 1
	if at == 0 {
		at = len(s.names)
		s.names = append(s.names, name+"\x00"...)
	}
	binary.LittleEndian.PutUint32(s.header(i), uint32(at))
}

// add appends a header of a section with content.
func (s *sectionTable) add(name string, flags, addr, off, size, align uint64) {
	le := binary.LittleEndian
	s.table = le.AppendUint32(le.AppendUint32(s.table, 0), elf.SHTProgbits)
	for _, v := range []uint64{flags, addr, off, size, 0 /* sh_link, sh_info */, align, 0} {
		s.table = le.AppendUint64(s.table, v)
	}
	s.rename(s.count()-1, name)
}

// move appends the header of a section with a new offset, and returns its index. The old one remains, for an empty
// section.
func (s *sectionTable) move(i int, off, size uint64) int {
	le := binary.LittleEndian
	s.table = append(s.table, s.header(i)...)
	to := s.count() - 1
	le.PutUint64(s.header(to)[24:], off)
	le.PutUint64(s.header(to)[32:], size)
	old := s.header(i)
	at := bytes.Clone(old[24:32])
	clear(old)
	le.PutUint32(old[4:], elf.SHTProgbits)
	copy(old[24:], at)
	le.PutUint64(old[48:], 1)
	s.rename(i, movedName)
	for j := range s.count() {
		if h := s.header(j); le.Uint32(h[40:]) == uint32(i) {
			le.PutUint32(h[40:], uint32(to))
		}
	}
	return to
}

// debugFrame returns the content of the section .debug_frame and its index: 0 if it does not exist, -1 if nothing
// can be added to it.
func (f *file) debugFrame() (b []byte, index int) {
	s := f.Section(debugFrame)
	if s == nil {
		return nil, 0
	}
	if s.Type != elf.SHTProgbits || s.Flags != 0 || s.Size > maxCopied {
		return nil, -1
	}
	return f.Bytes(s.Off, s.Size), s.Index
}
