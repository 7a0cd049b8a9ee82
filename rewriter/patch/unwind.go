// How unwinders get past the trampolines: a frame description for each kind of unwinder.

package patch

import (
	"bytes"
	"encoding/binary"
	"math"
	"slices"
	"sort"

	"golang.org/x/arch/x86/x86asm"

	"vfix.dev/vfix/rewriter/elf"
	"vfix.dev/vfix/rewriter/x86"
	"vfix.dev/vfix/shim"
)

// The trampolines and hooks are outside of the code that the file's unwind tables describe. Two kinds of readers
// use two places:
//
//   - libgcc and perf search the table of .eh_frame_hdr, whose entries are pairs of a start and
//     the address of an FDE. The table cannot grow. Two adjacent functions get one description
//     instead of two, at the end of the injected code, and the trampolines get the free entry. So
//     only code that was described before, and vfix's, is described: libgcc recognizes a
//     signal-return stub by its missing description.
//
//   - gdb, libdw and other readers of sections get a section .debug_frame, which is not loaded.
//     libdw does not follow the search table out of .eh_frame, so the section also has the two functions.
//
//     before                                 after
//     .eh_frame_hdr  … 0x136a30 → FDE        .eh_frame_hdr  … 0x136a30 → FDE at 0x180e80 of both
//     … 0x136a80 → FDE                       … 0x180010 → FDE at 0x180eb0
type unwinding struct {
	tail      []byte // the end of the injected page; nil: the search table does not change
	table     Edit   // of the search table
	described []elf.FrameDescription
}

// maxPairs is how many pairs of functions are tried, last ones first.
const maxPairs = 256

// planUnwinding describes the trampolines of a segment at vaddr, in at most space bytes at the end of the injected page.
func (f *file) planUnwinding(segment uint64, space int) unwinding {
	layout := shim.Injected()
	own := elf.FrameDescription{
		Start:   segment + uint64(layout.Described),
		Size:    uint64(layout.DescribedEnd - layout.Described),
		Program: shim.CFI(),
	}
	u := unwinding{described: []elf.FrameDescription{own}}
	hdr, table := f.SearchTable()
	n := sort.Search(len(table), func(i int) bool { return table[i].Start >= segment })
	if n < len(table) && table[n].Start < segment+shim.SegmentSize {
		return u
	}
	for k := n - 2; k >= max(0, n-maxPairs); k-- {
		pair, cie := f.pair(table[k], table[k+1])
		if pair == nil {
			continue
		}
		both := asOne(pair)
		size := fdeSize(both) + fdeSize(own)
		at := segment + elf.PageSize - uint64(size)
		if size > space || !inReach(at, both.Start) || !inReach(hdr, at) || !inReach(hdr, own.Start) || at-cie > math.MaxInt32-elf.PageSize {
			continue
		}
		next := at + uint64(fdeSize(both))
		u.tail = append(fde(at, cie, both), fde(next, cie, own)...)
		entries := slices.Concat([]elf.SearchEntry{{Start: both.Start, FDE: at}}, table[k+2:n], []elf.SearchEntry{{Start: own.Start, FDE: next}})
		first := hdr + elf.SearchHead + uint64(k)*elf.SearchSize
		off, _ := f.Offset(first, uint64(len(entries))*elf.SearchSize)
		u.table = Edit{Offset: off, Old: f.Bytes(off, uint64(len(entries))*elf.SearchSize), Why: "unwind table"}
		for _, e := range entries {
			u.table.New = binary.LittleEndian.AppendUint32(u.table.New, uint32(e.Start-hdr))
			u.table.New = binary.LittleEndian.AppendUint32(u.table.New, uint32(e.FDE-hdr))
		}
		u.described = append(pair, own)
		return u
	}
	return u
}

// pair returns the descriptions of two adjacent functions, nil for other functions.
func (f *file) pair(a, b elf.SearchEntry) (both []elf.FrameDescription, cie uint64) {
	x, cie := f.PlainFDE(a.FDE)
	y, _ := f.PlainFDE(b.FDE)
	if x.Size == 0 || y.Size == 0 || x.Start != a.Start || y.Start != b.Start || x.Start+x.Size > y.Start {
		return nil, cie
	}
	gap := y.Start - (x.Start + x.Size)
	between := f.Mem(x.Start+x.Size, gap)
	if gap > maxPadding || uint64(len(between)) < gap || !onlyPadding(between) {
		return nil, cie
	}
	for _, d := range []elf.FrameDescription{x, y} {
		if end, ok := elf.Advanced(d.Program); !ok || end > d.Size {
			return nil, cie
		}
	}
	return []elf.FrameDescription{x, y}, cie
}

// maxPadding is the maximum padding between two functions, in bytes.
const maxPadding = 63

// onlyPadding reports whether b is padding that assemblers put between functions: nops, int3 and zeros.
func onlyPadding(b []byte) bool {
	const int3 = 0xcc
	for len(b) > 0 {
		i, ok := x86.Decode(b, 0)
		switch {
		case b[0] == 0 || b[0] == int3:
			b = b[1:]
		case ok && i.Op == x86asm.NOP:
			b = b[i.Len:]
		default:
			return false
		}
	}
	return true
}

// asOne describes two functions as one. The second begins with the state of its CIE.
func asOne(pair []elf.FrameDescription) elf.FrameDescription {
	a, b := pair[0], pair[1]
	end, _ := elf.Advanced(a.Program)
	program := binary.LittleEndian.AppendUint32(append(bytes.Clone(a.Program), elf.CFAAdvance4), uint32(b.Start-a.Start-end))
	for reg := byte(0); reg < elf.DwarfRIP; reg++ {
		if reg != elf.DwarfRSP {
			program = append(program, elf.CFARestore|reg)
		}
	}
	return elf.FrameDescription{Start: a.Start, Size: b.Start + b.Size - a.Start, Program: slices.Concat(program, elf.PlainCFI, b.Program)}
}

// fdeSize returns the size of an FDE in bytes.
func fdeSize(d elf.FrameDescription) int { return (elf.FDEHead + len(d.Program) + 7) &^ 7 }

// fde returns an FDE at a vaddr whose CIE is a plain one.
func fde(at, cie uint64, d elf.FrameDescription) []byte {
	le := binary.LittleEndian
	b := le.AppendUint32(nil, uint32(fdeSize(d)-4))
	b = le.AppendUint32(b, uint32(at+4-cie))
	b = le.AppendUint32(b, uint32(d.Start-(at+8)))
	b = le.AppendUint32(b, uint32(d.Size))
	b = append(append(b, 0), d.Program...)
	return append(b, make([]byte, fdeSize(d)-len(b))...)
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
	for _, d := range u.described {
		body := le.AppendUint32(nil, uint32(cie))
		body = le.AppendUint64(le.AppendUint64(body, d.Start), d.Size)
		entry(append(body, d.Program...))
	}
	return b
}
