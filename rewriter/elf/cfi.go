// The search table of unwind tables, and the frame descriptions that a patch changes. Sources: the Linux Standard
// Base, ".eh_frame_hdr"; DWARF 4, 6.4 and 7.23.

package elf

import (
	"bytes"
	"encoding/binary"
	"math"
)

// Signed returns the 4 bytes as a signed distance.
func Signed(b []byte) uint64 { return uint64(int64(int32(binary.LittleEndian.Uint32(b)))) }

// SearchEntry is one entry of the search table of .eh_frame_hdr: the vaddrs of a function and of its FDE.
type SearchEntry struct{ Start, FDE uint64 }

// The sizes of the head of the search table and of an entry, in bytes.
const (
	SearchHead = 12
	SearchSize = 8
)

// SearchTable returns the vaddr of .eh_frame_hdr and its search table; none if the table does not exist, or is not
// in the form of linkers: pairs of 4 bytes relative to the header, in order.
func (f *File) SearchTable() (hdr uint64, table []SearchEntry) {
	p := f.Prog(PTGNUEhFrame)
	if p == nil {
		return 0, nil
	}
	hdr = p.Vaddr
	b := f.Mem(hdr, SearchHead)
	if len(b) < SearchHead || b[0] != 1 || b[1]&0x0f != peSdata4 || b[2] != peUdata4 || b[3] != peDatarel|peSdata4 {
		return hdr, nil
	}
	n := uint64(binary.LittleEndian.Uint32(b[8:]))
	if n > maxFDEs {
		return hdr, nil
	}
	if b = f.Mem(hdr+SearchHead, n*SearchSize); uint64(len(b)) < n*SearchSize {
		return hdr, nil
	}
	table = make([]SearchEntry, 0, n)
	for ; len(b) > 0; b = b[SearchSize:] {
		e := SearchEntry{hdr + Signed(b), hdr + Signed(b[4:])}
		if len(table) > 0 && e.Start < table[len(table)-1].Start {
			return hdr, nil
		}
		table = append(table, e)
	}
	return hdr, table
}

// FrameDescription is an FDE whose CIE is cieHead with PlainCFI.
type FrameDescription struct {
	Start, Size uint64
	Program     []byte // call frame instructions (DWARF 4, 6.4.2)
}

// The parts of call frame instructions (DWARF 4, 7.23).
const (
	cfaAdvance  = 0x40 // delta in the low 6 bits
	cfaOffset   = 0x80 // register in the low 6 bits
	CFARestore  = 0xc0 // register in the low 6 bits
	cfaAdvance1 = 0x02
	cfaAdvance2 = 0x03
	CFAAdvance4 = 0x04
	cfaDefCFA   = 0x0c

	DwarfRSP = 7  // psABI, figure 3.36
	DwarfRIP = 16 // the return address

	FDEHead = 4*4 + 1 // bytes of an FDE of cieHead before its instructions
)

// PlainCFI is the start of the instructions of a CIE: rsp+8 is the frame's address, the return address is below
// it.
var PlainCFI = []byte{cfaDefCFA, DwarfRSP, 8, cfaOffset | DwarfRIP, 1}

// PlainFDE reads the FDE at a vaddr; the size is 0 if its CIE is not cieHead with PlainCFI.
func (f *File) PlainFDE(vaddr uint64) (d FrameDescription, cie uint64) {
	const maxFDE = 1024 // bytes: it must fit into the page
	b := f.Mem(vaddr, maxFDE)
	if len(b) < FDEHead {
		return d, 0
	}
	length := uint64(binary.LittleEndian.Uint32(b))
	if length < FDEHead-4 || length > uint64(len(b)-4) || b[FDEHead-1] != 0 {
		return d, 0
	}
	cie = vaddr + 4 - Signed(b[4:])
	c := f.Mem(cie, cieRead)
	if len(c) < 4 || uint64(binary.LittleEndian.Uint32(c)) > uint64(len(c)-4) {
		return d, 0
	}
	initial, ok := bytes.CutPrefix(c[4:4+binary.LittleEndian.Uint32(c)], cieHead)
	if !ok || !bytes.Equal(bytes.TrimRight(initial, "\x00"), PlainCFI) {
		return d, 0
	}
	return FrameDescription{
		Start:   vaddr + 8 + Signed(b[8:]),
		Size:    uint64(binary.LittleEndian.Uint32(b[12:])),
		Program: b[FDEHead : 4+length],
	}, cie
}

// cfaOperands are the operands of instructions with a whole byte as opcode: u for LEB128, b for a block, digits
// for that many bytes. DWARF 4, 7.23; the last two are GNU's.
var cfaOperands = map[byte]string{
	0x00: "", 0x02: "1", 0x03: "2", 0x04: "4", 0x05: "uu", 0x06: "u", 0x07: "u", 0x08: "u", 0x09: "uu",
	0x0a: "", 0x0b: "", 0x0c: "uu", 0x0d: "u", 0x0e: "u", 0x0f: "b", 0x10: "ub", 0x11: "uu", 0x12: "uu",
	0x13: "u", 0x14: "uu", 0x15: "uu", 0x16: "ub", 0x2e: "u", 0x2f: "uu",
}

// Advanced returns how far call frame instructions advance the location, in bytes of code; ok is false if one of
// them is not known.
func Advanced(program []byte) (n uint64, ok bool) {
	r := leb{b: program}
	for r.at < len(program) && !r.bad {
		op := r.byte()
		switch high := op & 0xc0; {
		case high == cfaAdvance:
			n += uint64(op &^ high)
			continue
		case high == cfaOffset:
			r.uleb()
			continue
		case high == CFARestore:
			continue
		}
		operands, known := cfaOperands[op]
		if !known {
			return 0, false
		}
		var value uint64 // of the last operand
		for _, o := range operands {
			switch o {
			case 'u':
				value = r.uleb()
			case 'b':
				r.at += int(min(r.uleb(), math.MaxInt32))
			default:
				value = 0
				for shift := range int(o - '0') {
					value |= uint64(r.byte()) << (8 * shift)
				}
			}
		}
		if op == cfaAdvance1 || op == cfaAdvance2 || op == CFAAdvance4 {
			n += value
		}
	}
	return n, !r.bad && r.at <= len(program)
}
