// Function starts from .eh_frame. Sources: the Linux Standard Base, "Exception Frames" and
// ".eh_frame_hdr", and DWARF 4, 7.24, for the DW_EH_PE encodings.

package elf

import (
	"bufio"
	"encoding/binary"
	"io"
)

const (
	pePtr     = 0x00 // 8 bytes
	peUdata4  = 0x03
	peSdata4  = 0x0b
	peSdata8  = 0x0c
	pePcrel   = 0x10
	peDatarel = 0x30
	peOmit    = 0xff

	// maxFDEs is the maximum number of entries read in one file.
	maxFDEs = 1 << 20
	// cieRead is how much of a CIE is read for its augmentation, in bytes.
	cieRead = 64
	// fdeRead is how much of an FDE is read: its head, two addresses and that of a table of landing pads.
	fdeRead = 48
	// minFDE is the minimum size of an FDE with the bytes behind it: a head and two addresses.
	minFDE = 24
)

// EachFDE calls visit with each function in .eh_frame whose start near accepts: through the search table of
// PT_GNU_EH_FRAME; by reading the section if the table is missing, or leads out of its segment, as vfix's does; or
// by its content if no header names it. Damage ends the search without an error.
func (f *File) EachFDE(near func(start uint64) bool, visit func(Func)) {
	u := &unwind{f: f, near: near, visit: visit, cies: make(map[uint64]cie)}
	if u.table() {
		return
	}
	if s := f.Section(".eh_frame"); s != nil && s.Type != SHTNobits {
		u.section(s.Off, s.Addr, s.Size)
	} else if f.Sections == nil {
		u.search()
	}
}

// InUnwindTable reports whether a vaddr is in .eh_frame, if there are section headers, or in .eh_frame_hdr.
func (f *File) InUnwindTable(vaddr uint64) bool {
	s, p := f.Section(".eh_frame"), f.Prog(PTGNUEhFrame)
	return s != nil && vaddr-s.Addr < s.Size || p != nil && vaddr-p.Vaddr < p.Filesz
}

// unwind reads unwind tables.
type unwind struct {
	f     *File
	near  func(start uint64) bool
	visit func(Func)
	cies  map[uint64]cie // by offset
}

// table reads the search table of .eh_frame_hdr; done is false if it is missing, or an entry leads elsewhere.
func (u *unwind) table() (done bool) {
	hdr, table := u.f.SearchTable()
	if table == nil {
		return false
	}
	home := u.f.Load(hdr)
	done = true
	for _, e := range table {
		switch {
		case e.FDE-home.Vaddr >= home.Filesz:
			done = false
		case u.near(e.Start):
			off := home.Off + (e.FDE - home.Vaddr)
			fn, _ := u.entry(u.f.Bytes(off, min(fdeRead, u.f.Size-off)), off, e.FDE)
			if fn.Start != e.Start {
				fn = Func{Start: e.Start}
			}
			u.visit(fn)
		}
	}
	return done
}

// section reads the entries of .eh_frame, size bytes at an offset, in order.
func (u *unwind) section(start, vaddr, size uint64) {
	r := bufio.NewReaderSize(io.NewSectionReader(u.f, int64(start), int64(u.f.Size-start)), 16<<10)
	for off, n := start, 0; n < maxFDEs && off+8 <= start+size; n++ {
		b, _ := r.Peek(fdeRead)
		if len(b) < minFDE {
			return
		}
		length := uint64(binary.LittleEndian.Uint32(b))
		if length == 0xffffffff {
			return // the 64-bit form, which no tool writes
		}
		if length == 0 {
			off += 4 // a terminator; the linker may put more behind it
			_, _ = r.Discard(4)
			continue
		}
		if id := uint64(binary.LittleEndian.Uint32(b[4:])); id <= off+4-start {
			if fn, ok := u.entry(b, off, vaddr+(off-start)); ok && u.near(fn.Start) {
				u.visit(fn)
			}
		}
		off += 4 + length
		_, _ = r.Discard(int(4 + length)) // Peek returned these bytes
	}
}

// cieHead is the start of the CIE that gcc and clang write for C code, behind its length: the ID 0, version 1, the
// augmentation zR, code alignment 1, data alignment -8, return register 16, one byte of augmentation data:
// addresses are relative and of 4 bytes.
var cieHead = []byte("\x00\x00\x00\x00\x01zR\x00\x01\x78\x10\x01\x1b")

// search finds .eh_frame in a file without section headers: from the first such CIE of a segment on. Each entry refers to
// its CIE by the distance.
func (u *unwind) search() {
	var read *Prog
	u.f.EachChunk(0, PFW, func(p *Prog, b []byte, vaddr uint64, lo, hi int) {
		for i := range Indexes(b, lo, hi, cieHead) {
			if i >= 4 && read != p {
				v := vaddr + uint64(i) - 4
				u.section(p.Off+(v-p.Vaddr), v, p.Filesz-(v-p.Vaddr))
				read = p
			}
		}
	})
}

// entry reads the FDE at an offset and vaddr, which b begins with.
func (u *unwind) entry(b []byte, off, vaddr uint64) (fn Func, ok bool) {
	if len(b) < minFDE {
		return fn, false
	}
	id := uint64(binary.LittleEndian.Uint32(b[4:]))
	if id == 0 {
		return fn, false
	}
	c := u.cie(off + 4 - id)
	if !c.known {
		return fn, false
	}
	start, n, ok := pointer(b[8:], vaddr+8, c.enc)
	if !ok || len(b) < 8+2*n+1 {
		return fn, false
	}
	length, _, _ := pointer(b[8+n:], 0, c.enc&0x0f)
	if length > MaxVaddr {
		return fn, false
	}
	fn = Func{Start: start, End: start + length, FDE: off}
	if length == 0 {
		fn.End = 0
	}
	if c.lsda == peOmit {
		return fn, true
	}
	r := leb{b: b, at: 8 + 2*n}
	r.uleb()
	if r.bad {
		return Func{}, false
	}
	raw, _, ok := pointer(b[r.at:], 0, c.lsda&0x0f)
	if !ok || c.lsda&^(0x0f|pePcrel) != 0 {
		fn.LSDA = 1 // nothing is there: not understood
		return fn, true
	}
	if raw != 0 && c.lsda&pePcrel != 0 {
		raw += vaddr + uint64(r.at)
	}
	fn.LSDA = raw
	return fn, true
}

// cie is the encoding of the addresses in the FDEs of a CIE, and of their tables of landing pads.
type cie struct {
	enc, lsda byte
	known     bool
	align     uint64 // of code: the unit of advances
	initial   []byte // call frame instructions before an FDE's, padded
}

// cie reads the CIE at offset off.
func (u *unwind) cie(off uint64) cie {
	if c, ok := u.cies[off]; ok {
		return c
	}
	c := u.f.readCIE(off)
	if len(u.cies) < symChunk {
		u.cies[off] = c
	}
	return c
}

func (f *File) readCIE(off uint64) cie {
	if !f.InFile(off, 9) {
		return cie{}
	}
	b := f.Bytes(off, min(cieRead, f.Size-off))
	c := cie{enc: pePtr, lsda: peOmit, known: true}
	aug := cString(b, 9)
	if aug == "" {
		return c
	}
	if aug[0] != 'z' {
		return cie{}
	}
	// After the string: code and data alignment, the return register, the length.
	r := leb{b: b, at: 9 + len(aug) + 1}
	c.align, _, _ = r.uleb(), r.uleb(), r.uleb()
	begin, end := r.uleb(), 4+uint64(binary.LittleEndian.Uint32(b))
	if begin += uint64(r.at); begin <= end && end <= uint64(len(b)) {
		c.initial = b[begin:end]
	}
	for _, a := range aug[1:] {
		switch a {
		case 'R':
			c.enc = r.byte()
		case 'L':
			c.lsda = r.byte()
		case 'P':
			if enc := r.byte(); enc&0x0f == pePtr || enc&0x0f == peSdata8 {
				r.at += 8
			} else {
				r.at += 4
			}
		case 'S', 'B':
		default:
			return cie{}
		}
	}
	if r.bad {
		return cie{}
	}
	return c
}

// pointer decodes an address at vaddr, and returns its size in bytes.
func pointer(b []byte, vaddr uint64, enc byte) (v uint64, n int, ok bool) {
	if len(b) < 8 {
		return v, n, false
	}
	switch enc & 0x0f {
	case pePtr, peSdata8:
		v, n = binary.LittleEndian.Uint64(b), 8
	case peSdata4:
		v, n = uint64(int64(int32(binary.LittleEndian.Uint32(b)))), 4
	case peUdata4:
		v, n = uint64(binary.LittleEndian.Uint32(b)), 4
	default:
		return v, n, false
	}
	switch enc & 0x70 {
	case 0:
		return v, n, true
	case pePcrel:
		return v + vaddr, n, true
	}
	return v, n, false
}

// Func is the place in memory of a function, or of a part of one that a compiler split off.
type Func struct {
	Start uint64
	End   uint64 // behind its last byte; 0 if not known
	LSDA  uint64 // vaddr of its table of landing pads, 0 for none
	FDE   uint64 // offset in the file of its entry in .eh_frame, 0 for none
}

// Holds reports whether vaddr may be in the function.
func (fn *Func) Holds(vaddr uint64) bool {
	return vaddr >= fn.Start && (fn.End == 0 || vaddr < fn.End)
}
