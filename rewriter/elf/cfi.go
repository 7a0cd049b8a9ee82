// The search table of unwind tables. Source: the Linux Standard Base, ".eh_frame_hdr".

package elf

import "encoding/binary"

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
	for ; len(b) > 0; b = b[SearchSize:] {
		e := SearchEntry{hdr + Signed(b), hdr + Signed(b[4:])}
		if len(table) > 0 && e.Start < table[len(table)-1].Start {
			return hdr, nil
		}
		table = append(table, e)
	}
	return hdr, table
}
