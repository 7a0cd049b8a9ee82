// Listings of code: two versions side by side.

package x86

import (
	"bytes"

	"golang.org/x/arch/x86/x86asm"
)

// Line is one instruction of a listing.
type Line struct {
	Vaddr   uint64
	Bytes   []byte
	Text    string // in AT&T syntax, as objdump writes it
	Changed bool   // its bytes differ from those of the same instruction on the other side
	Dead    bool   // bytes that are never executed: Text is not an instruction but says so
}

// Bury marks a line as never executed: the decoded instruction would be misleading.
func (l *Line) Bury() { l.Text, l.Dead = "(never runs)", true }

// To returns the address that the instruction jumps to, loads or has as its final immediate; 0 for none.
func (l *Line) To() uint64 {
	in, ok := Decode(l.Bytes, l.Vaddr)
	if !ok {
		return 0
	}
	to := in.Target
	if in.Op == x86asm.LEA {
		to, _ = in.MemVaddr()
	}
	if to == 0 {
		to = uint64(lastImm(&in))
	}
	return to
}

// Listing disassembles two versions of the code at vaddr, of equal length. An incomplete instruction ends the
// listing. The rest of an old instruction behind a new one is never decoded across the start of the next old one.
func Listing(before, after []byte, vaddr uint64) (b, a []Line) {
	ends := map[uint64]bool{0: true} // of the instructions before
	for i := 0; i < len(before); {
		in, ok := Decode(before[i:], vaddr+uint64(i))
		if !ok {
			if len(before)-i < MaxLen {
				before, after = before[:i], after[:i]
				break
			}
			in = Instr{Addr: vaddr + uint64(i), Inst: x86asm.Inst{Len: 1}}
		}
		b = append(b, in.lineOf(before, after, i))
		i += in.Len
		ends[uint64(i)] = true
	}
	for i := 0; i < len(after); {
		in, ok := Decode(after[i:], vaddr+uint64(i))
		if ok && after[i] == before[i] && !ends[uint64(i+in.Len)] {
			// A remnant: only up to the next old instruction.
			n := i + 1
			for !ends[uint64(n)] {
				n++
			}
			in, ok = Decode(after[i:n], vaddr+uint64(i))
		}
		if !ok {
			in = Instr{Addr: vaddr + uint64(i), Inst: x86asm.Inst{Len: 1}}
		}
		l := in.lineOf(after, before, i)
		l.Changed = l.Changed || !ends[uint64(i)]
		a = append(a, l)
		i += in.Len
	}
	return b, a
}

// lineOf returns the line of the instruction at b[i]; other is the other version.
func (in *Instr) lineOf(b, other []byte, i int) Line {
	raw := b[i : i+in.Len]
	return Line{Vaddr: in.Addr, Bytes: bytes.Clone(raw), Text: in.Text(raw), Changed: !bytes.Equal(raw, other[i:i+in.Len])}
}

// lastImm returns the immediate that ends the instruction, 0 for none.
func lastImm(in *Instr) (imm x86asm.Imm) {
	for _, a := range in.Args {
		if a != nil {
			imm, _ = a.(x86asm.Imm)
		}
	}
	return imm
}
