// Function starts from .eh_frame. Sources: the Linux Standard Base, "Exception Frames" and
// ".eh_frame_hdr", and DWARF 4, 7.24, for the DW_EH_PE encodings.

package elf

import (
	"bufio"
	"bytes"
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

// EachFDE calls visit with each function in .eh_frame whose start near accepts, and the offset of its FDE: through the search table of
// PT_GNU_EH_FRAME; by reading the section if the table is missing, or leads out of its segment, as vfix's does; or
// by its content if no header names it. Damage ends the search without an error.
func (f *File) EachFDE(near func(start uint64) bool, visit func(start, fde uint64)) {
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

// unwind reads unwind tables.
type unwind struct {
	f     *File
	near  func(start uint64) bool
	visit func(start, fde uint64)
	cies  map[uint64]cie // by offset
}

// cie is what a CIE says about its FDEs.
type cie struct {
	enc  byte // of addresses; peOmit if the CIE is not understood
	lsda bool // they have the address of a table of landing pads, of 4 or 8 bytes: 0 without one
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
			off, _ := u.f.Offset(e.FDE, 1)
			u.visit(e.Start, off)
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
			if fn, ok := u.entry(b, off, vaddr+(off-start)); ok && u.near(fn) {
				u.visit(fn, off)
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

// entry returns the start of the function of the FDE at an offset and vaddr, which b begins with.
func (u *unwind) entry(b []byte, off, vaddr uint64) (start uint64, ok bool) {
	id := uint64(binary.LittleEndian.Uint32(b[4:]))
	if id == 0 {
		return 0, false
	}
	start, _, ok = pointer(b[8:], vaddr+8, u.cie(off+4-id).enc)
	return start, ok
}

// cie returns the CIE at offset off.
func (u *unwind) cie(off uint64) cie {
	c, known := u.cies[off]
	if known {
		return c
	}
	c, ok := u.f.readCIE(off)
	if !ok {
		c.enc = peOmit
	}
	if len(u.cies) < symChunk {
		u.cies[off] = c
	}
	return c
}

// HasLandingPads reports whether the function of the FDE at an offset handles exceptions: the FDE has a table of landing
// pads, or is not understood.
func (f *File) HasLandingPads(fde uint64) bool {
	if !f.InFile(fde, minFDE) {
		return true
	}
	b := f.Bytes(fde, min(fdeRead, f.Size-fde))
	c, ok := f.readCIE(fde + 4 - uint64(binary.LittleEndian.Uint32(b[4:])))
	_, n, known := pointer(b[8:], 0, c.enc&0x0f)
	if !ok || !known {
		return true
	}
	if !c.lsda {
		return false
	}
	table := b[8+2*n+1:] // behind the addresses and the length of the augmentation data; 4 of its bytes suffice
	return len(bytes.Trim(table[:min(4, len(table))], "\x00")) > 0
}

func (f *File) readCIE(off uint64) (c cie, ok bool) {
	if !f.InFile(off, 9) {
		return c, false
	}
	b := f.Bytes(off, min(cieRead, f.Size-off))
	aug := cString(b, 9)
	if aug == "" {
		return c, true
	}
	if aug[0] != 'z' {
		return c, false
	}
	// After the string: code and data alignment, the return register, the length.
	r := leb{b: b, at: 9 + len(aug) + 1}
	for range 4 {
		r.uleb()
	}
	for _, a := range aug[1:] {
		switch a {
		case 'R':
			c.enc = r.byte()
		case 'L':
			r.byte()
			c.lsda = true
		case 'P':
			if enc := r.byte(); enc&0x0f == pePtr || enc&0x0f == peSdata8 {
				r.at += 8
			} else {
				r.at += 4
			}
		case 'S', 'B':
		default:
			return c, false
		}
	}
	return c, !r.bad
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
