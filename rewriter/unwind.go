// How unwinders get past the trampolines: a frame description where each kind looks for one.

package rewriter

import (
	"bytes"
	"encoding/binary"
	"math"
	"slices"

	"vfix.dev/vfix/rewriter/elf"
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
	last    elf.FrameDescription
	own     elf.FrameDescription // of the trampolines and hooks
}

// planUnwinding describes the trampolines of a segment at vaddr, with at most space bytes of the
// injected page.
func (f *file) planUnwinding(segment uint64, space int) (unwinding, error) {
	layout := shim.Injected()
	u := unwinding{own: elf.FrameDescription{
		Start:   segment + uint64(layout.Described),
		Size:    uint64(layout.DescribedEnd - layout.Described),
		Program: shim.CFI(),
	}}
	hdr := f.Prog(elf.PTGNUEhFrame)
	if hdr == nil {
		return u, nil
	}
	at, err := f.LastBefore(hdr.Vaddr, segment, shim.SegmentSize)
	if err != nil || at == 0 {
		return u, err
	}
	entry, err := f.Mem(at, 8)
	if err != nil || len(entry) < 8 {
		return u, err
	}
	fde := hdr.Vaddr + elf.Signed(entry[4:])
	last, cie, err := f.PlainFDE(fde)
	if err != nil || last.Start != hdr.Vaddr+elf.Signed(entry) || last.Start+last.Size > segment {
		return u, err
	}
	end, ok := elf.Advanced(last.Program)
	if !ok || end > last.Size {
		return u, nil
	}
	le := binary.LittleEndian
	program := bytes.TrimRight(last.Program, "\x00")
	if n, ok := elf.Advanced(program); !ok || n != end {
		program = last.Program // the zeros were no padding
	}
	program = le.AppendUint32(append(bytes.Clone(program), elf.CFAAdvance4), uint32(last.Size-end))
	program = append(program, elf.CFAUndef, elf.DwarfRIP)
	program = le.AppendUint32(append(program, elf.CFAAdvance4), uint32(u.own.Start-(last.Start+last.Size)))
	for reg := byte(0); reg < elf.DwarfRIP; reg++ {
		if reg != elf.DwarfRSP {
			program = append(program, elf.CFARestore|reg)
		}
	}
	program = slices.Concat(program, elf.PlainCFI, u.own.Program)
	size := (elf.FDEHead + len(program) + 7) &^ 7
	if size > space {
		return u, nil
	}
	vaddr := segment + elf.PageSize - uint64(size)
	if !inReach(vaddr, last.Start) || !inReach(hdr.Vaddr, vaddr) || vaddr < cie || vaddr-cie > math.MaxInt32 {
		return u, nil
	}
	b := le.AppendUint32(nil, uint32(size-4))
	b = le.AppendUint32(b, uint32(vaddr+4-cie))
	b = le.AppendUint32(b, uint32(last.Start-(vaddr+8)))
	b = le.AppendUint32(b, uint32(u.own.Start+u.own.Size-last.Start))
	b = append(append(b, 0), program...)
	off, _ := f.Offset(at, 8)
	u.last, u.fde = last, append(b, make([]byte, size-len(b))...)
	u.entryAt = at + 4
	u.entry = Edit{Offset: off + 4, Old: entry[4:], New: le.AppendUint32(nil, uint32(vaddr-hdr.Vaddr)), Why: "unwind table"}
	return u, nil
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
	entry(append([]byte("\xff\xff\xff\xff\x01\x00\x01\x78\x10"), elf.PlainCFI...))
	for _, d := range []elf.FrameDescription{u.last, u.own} {
		if d.Size == 0 {
			continue
		}
		body := le.AppendUint32(nil, uint32(cie))
		body = le.AppendUint64(le.AppendUint64(body, d.Start), d.Size)
		entry(append(body, d.Program...))
	}
	return b
}
