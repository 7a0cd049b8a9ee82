// How unwinders get past the trampolines: a frame description where each kind looks for one.

package rewriter

import (
	"bytes"
	"encoding/binary"
	"math"
	"slices"
	"sort"

	"vfix.dev/vfix/shim"
)

// The trampolines and hooks lie outside of everything that the file's unwind tables describe. Two
// readers, two places:
//
//   - libgcc and perf bisect the search table of .eh_frame_hdr, whose entries are pairs of a start
//     and the place of an FDE. The table cannot grow, and need not: the entry of the last function
//     before the segment gets an FDE at the end of the injected code. That has what the function's
//     own had, then no return address (as if there were no FDE), then the trampolines.
//
//   - gdb, libdw and what reads sections get a section .debug_frame, which is not loaded. libdw
//     does not follow the search table out of .eh_frame, so the last function is in it, too.
//
//     before                                 after
//     .eh_frame_hdr  … 0x136a30 → FDE        .eh_frame_hdr  … 0x136a30 → FDE at 0x180f00
//     0x180f00  FDE 0x136a30..0x180185
type unwinding struct {
	fde     []byte // the end of the injected page; nil: the search table stays
	entry   Edit   // of the search table, at vaddr entryAt
	entryAt uint64
	last    frameDescription
	own     frameDescription // of the trampolines and hooks
}

// frameDescription is an FDE whose CIE is plainCIE.
type frameDescription struct {
	start, size uint64
	program     []byte // call frame instructions (DWARF 4, 6.4.2)
}

// What call frame instructions are made of (DWARF 4, 7.23).
const (
	cfaAdvance  = 0x40 // delta in the low 6 bits
	cfaOffset   = 0x80 // register in the low 6 bits
	cfaRestore  = 0xc0 // register in the low 6 bits
	cfaAdvance4 = 0x04
	cfaUndef    = 0x07
	cfaDefCFA   = 0x0c

	dwarfRSP = 7  // psABI, figure 3.36
	dwarfRIP = 16 // the return address

	fdeHead = 4*4 + 1 // bytes of an FDE of cieHead before its instructions
)

// plainCFI is what a CIE begins with: rsp+8 is the frame's address, the return address below it.
var plainCFI = []byte{cfaDefCFA, dwarfRSP, 8, cfaOffset | dwarfRIP, 1}

// planUnwinding describes the trampolines of a segment at vaddr, with at most space bytes of the
// injected page.
func (f *file) planUnwinding(segment uint64, space int) (unwinding, error) {
	layout := shim.Injected()
	u := unwinding{own: frameDescription{
		start:   segment + uint64(layout.Described),
		size:    uint64(layout.DescribedEnd - layout.Described),
		program: shim.CFI(),
	}}
	hdr := f.prog(ptGNUEhFrame)
	if hdr == nil {
		return u, nil
	}
	at, err := f.lastBefore(hdr.vaddr, segment, shim.SegmentSize)
	if err != nil || at == 0 {
		return u, err
	}
	entry, err := f.mem(at, 8)
	if err != nil || len(entry) < 8 {
		return u, err
	}
	fde := hdr.vaddr + signed(entry[4:])
	last, cie, err := f.plainFDE(fde)
	if err != nil || last.start != hdr.vaddr+signed(entry) || last.start+last.size > segment {
		return u, err
	}
	end, ok := advanced(last.program)
	if !ok || end > last.size {
		return u, nil
	}
	le := binary.LittleEndian
	program := bytes.TrimRight(last.program, "\x00")
	if n, ok := advanced(program); !ok || n != end {
		program = last.program // the zeros were no padding
	}
	program = le.AppendUint32(append(bytes.Clone(program), cfaAdvance4), uint32(last.size-end))
	program = append(program, cfaUndef, dwarfRIP)
	program = le.AppendUint32(append(program, cfaAdvance4), uint32(u.own.start-(last.start+last.size)))
	for reg := byte(0); reg < dwarfRIP; reg++ {
		if reg != dwarfRSP {
			program = append(program, cfaRestore|reg)
		}
	}
	program = slices.Concat(program, plainCFI, u.own.program)
	size := (fdeHead + len(program) + 7) &^ 7
	if size > space {
		return u, nil
	}
	vaddr := segment + pageSize - uint64(size)
	if !inReach(vaddr, last.start) || !inReach(hdr.vaddr, vaddr) || vaddr < cie || vaddr-cie > math.MaxInt32 {
		return u, nil
	}
	b := le.AppendUint32(nil, uint32(size-4))
	b = le.AppendUint32(b, uint32(vaddr+4-cie))
	b = le.AppendUint32(b, uint32(last.start-(vaddr+8)))
	b = le.AppendUint32(b, uint32(u.own.start+u.own.size-last.start))
	b = append(append(b, 0), program...)
	off, _ := f.offset(at, 8)
	u.last, u.fde = last, append(b, make([]byte, size-len(b))...)
	u.entryAt = at + 4
	u.entry = Edit{Offset: off + 4, Old: entry[4:], New: le.AppendUint32(nil, uint32(vaddr-hdr.vaddr)), Why: "unwind table"}
	return u, nil
}

// signed returns the 4 bytes as a distance.
func signed(b []byte) uint64 { return uint64(int64(int32(binary.LittleEndian.Uint32(b)))) }

// lastBefore returns the vaddr of the entry that a bisection of the search table finds for a
// segment of size bytes, 0 where there is none, or the table is not what linkers write.
func (f *elfFile) lastBefore(hdr, segment, size uint64) (uint64, error) {
	const head, entry = 12, 8
	b, err := f.mem(hdr, head)
	if err != nil || len(b) < head || !searchable(b) {
		return 0, err
	}
	n := uint64(binary.LittleEndian.Uint32(b[8:]))
	if n == 0 || n > maxFDEs {
		return 0, nil
	}
	b, err = f.mem(hdr+head, n*entry)
	if err != nil || uint64(len(b)) < n*entry {
		return 0, err
	}
	start := func(i int) uint64 { return hdr + signed(b[i*entry:]) }
	for i := 1; i < int(n); i++ {
		if start(i) < start(i-1) {
			return 0, nil
		}
	}
	i := sort.Search(int(n), func(i int) bool { return start(i) >= segment }) - 1
	if i < 0 || i+1 < int(n) && start(i+1) < segment+size {
		return 0, nil
	}
	return hdr + head + uint64(i)*entry, nil
}

// plainFDE reads the FDE at a vaddr; the size is 0 where its CIE is not cieHead with plainCFI.
func (f *elfFile) plainFDE(vaddr uint64) (d frameDescription, cie uint64, err error) {
	const maxFDE = 1024 // bytes: it has to fit into the page
	b, err := f.mem(vaddr, maxFDE)
	if err != nil || len(b) < fdeHead {
		return d, 0, err
	}
	length := uint64(binary.LittleEndian.Uint32(b))
	if length < fdeHead-4 || length > uint64(len(b)-4) || b[fdeHead-1] != 0 {
		return d, 0, nil
	}
	cie = vaddr + 4 - signed(b[4:])
	c, err := f.mem(cie, 4)
	if err != nil || len(c) < 4 {
		return d, 0, err
	}
	c, err = f.mem(cie+4, min(uint64(binary.LittleEndian.Uint32(c)), cieRead))
	if err != nil {
		return d, 0, err
	}
	initial, ok := bytes.CutPrefix(c, cieHead)
	if !ok || !bytes.Equal(bytes.TrimRight(initial, "\x00"), plainCFI) {
		return d, 0, nil
	}
	return frameDescription{
		start:   vaddr + 8 + signed(b[8:]),
		size:    uint64(binary.LittleEndian.Uint32(b[12:])),
		program: b[fdeHead : 4+length],
	}, cie, nil
}

// cfaOperands are the operands of the instructions that have no place in their opcode: u for
// LEB128, b for a block, digits for that many bytes. DWARF 4, 7.23; the last two are GNU's.
var cfaOperands = map[byte]string{
	0x00: "", 0x02: "1", 0x03: "2", 0x04: "4", 0x05: "uu", 0x06: "u", 0x07: "u", 0x08: "u", 0x09: "uu",
	0x0a: "", 0x0b: "", 0x0c: "uu", 0x0d: "u", 0x0e: "u", 0x0f: "b", 0x10: "ub", 0x11: "uu", 0x12: "uu",
	0x13: "u", 0x14: "uu", 0x15: "uu", 0x16: "ub", 0x2e: "u", 0x2f: "uu",
}

// advanced returns how far call frame instructions get from where they start, in bytes of code.
func advanced(program []byte) (n uint64, ok bool) {
	r := leb{b: program}
	for r.at < len(program) {
		op := r.byte()
		switch op & 0xc0 {
		case cfaAdvance:
			n += uint64(op & 0x3f)
			continue
		case cfaOffset:
			r.uleb()
			continue
		case cfaRestore:
			continue
		}
		operands, known := cfaOperands[op]
		if !known {
			return 0, false
		}
		for _, o := range operands {
			switch o {
			case 'u':
				r.uleb()
			case 'b':
				r.at += int(min(r.uleb(), math.MaxInt32))
			default:
				for shift := range int(o - '0') {
					n += uint64(r.byte()) << (8 * shift)
				}
			}
		}
		if r.bad || r.at > len(program) {
			return 0, false
		}
	}
	return n, !r.bad
}

// debugFrame appends the descriptions to the content of a section .debug_frame.
func (u *unwinding) debugFrame(b []byte) []byte {
	le := binary.LittleEndian
	cie := len(b)
	entry := func(body []byte) {
		body = append(body, make([]byte, -(4+len(body))&7)...)
		b = append(le.AppendUint32(b, uint32(len(body))), body...)
	}
	// The ID of a CIE, version 1, no augmentation, and the factors and the register of cieHead.
	entry(append([]byte("\xff\xff\xff\xff\x01\x00\x01\x78\x10"), plainCFI...))
	for _, d := range []frameDescription{u.last, u.own} {
		if d.size == 0 {
			continue
		}
		body := le.AppendUint32(nil, uint32(cie))
		body = le.AppendUint64(le.AppendUint64(body, d.start), d.size)
		entry(append(body, d.program...))
	}
	return b
}
