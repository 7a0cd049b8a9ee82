// References to an address, by every byte that might be one.

package elf

import (
	"encoding/binary"
)

// ripRelative reports whether the 4 bytes at b[i], in code that begins at vaddr, may be a displacement relative to
// rip to the address want.
func ripRelative(b []byte, i int, vaddr, want uint64) bool {
	if i == 0 || b[i-1]&0xc7 != 5 { // ModRM has mod 0 and rm 5
		return false
	}
	to := vaddr + uint64(i) + 4 + Signed(b[i:])
	return to == want || to+1 == want || to+2 == want || to+4 == want // an immediate of that many bytes may follow
}

// References returns the vaddrs in code of displacements relative to rip that lead to vaddr and, in a program at a
// fixed address, of its 4 bytes, and the number of words of data with it.
func (f *File) References(vaddr uint64) (disps []uint64, data int) {
	word := binary.LittleEndian.AppendUint64(nil, vaddr)
	f.EachChunk(0, 0, func(p *Prog, b []byte, at uint64, lo, hi int) {
		if p.Flags&PFX == 0 {
			for range Indexes(b, lo, hi, word) {
				data++
			}
			return
		}
		for i := lo; i < hi && i+4 <= len(b); i++ {
			if ripRelative(b, i, at, vaddr) || f.Type == TypeExec && uint64(binary.LittleEndian.Uint32(b[i:])) == vaddr {
				disps = append(disps, at+uint64(i))
			}
		}
	})
	f.EachRela(func(r Rela) {
		if r.Addend == vaddr {
			data++
		}
	})
	return disps, data
}

// FindText returns the vaddrs of a text, of at most ChunkMargin bytes, in loaded segments, at most eight.
func (f *File) FindText(text string) (all []uint64) {
	const most = 8
	f.EachChunk(0, 0, func(_ *Prog, b []byte, vaddr uint64, lo, hi int) {
		for at := range Indexes(b, lo, hi, []byte(text)) {
			if len(all) == most {
				return
			}
			all = append(all, vaddr+uint64(at))
		}
	})
	return all
}
