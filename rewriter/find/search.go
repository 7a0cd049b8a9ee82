// The search for references: every encoding ends with, or is, one of the three addresses, whose third and fourth
// byte are the rare pair 60 ff. The search looks only for that pair; the bytes around a hit then identify it.

package find

import (
	"encoding/binary"

	"golang.org/x/arch/x86/x86asm"

	"vfix.dev/vfix/rewriter/elf"
	"vfix.dev/vfix/rewriter/x86"
)

// maxSites is the maximum number of references in one file. The most in a known file is 8.
const maxSites = 4096

const pagePair = 0xff60

// search returns the references in the segments of a file, in vaddr order.
func search(f *File) (sites []Site) {
	f.EachChunk(0, 0, func(p *elf.Prog, b []byte, vaddr uint64, lo, hi int) {
		for i := range elf.Pairs(b, lo, hi, pagePair) {
			fn, ok := functionAt(b, i)
			if !ok || len(sites) == maxSites {
				continue
			}
			imm := i - 2
			s, code := referenceAt(b, imm)
			switch {
			case code && p.Flags&elf.PFX != 0:
			case isWord(b, imm) && (vaddr+uint64(imm))%wordSize == 0:
				s = Site{Len: wordSize, Kind: DataWord}
			default:
				continue
			}
			s.Function, s.Vaddr = fn, vaddr+uint64(imm)-s.Vaddr // it was the distance to the immediate
			s.Offset = p.Off + s.Vaddr - p.Vaddr
			sites = append(sites, s)
		}
	})
	return sites
}

// functionAt returns the function of the page whose address has its pair at b[i].
func functionAt(b []byte, i int) (Function, bool) {
	if i < 2 {
		return 0, false
	}
	return FunctionAt(elf.Signed(b[i-2:]))
}

const wordSize = 8

// isWord reports whether the address whose lower half is at b[imm] also has its upper half.
func isWord(b []byte, imm int) bool {
	return len(b) >= imm+wordSize && binary.LittleEndian.Uint32(b[imm+4:]) == 0xffffffff
}

// modrmBefore are the possible distances from the opcode to the immediate: ModRM, perhaps SIB, and a displacement
// of 0, 1 or 4 bytes are between them.
var modrmBefore = [...]int{2, 3, 4, 6, 7}

// referenceAt recognizes a mov of the immediate at b[imm], a push and a comparison. The Vaddr of the site is the
// distance from its first byte to the immediate.
func referenceAt(b []byte, imm int) (Site, bool) {
	if imm >= 3 {
		rex, op, modrm := b[imm-3], b[imm-2], b[imm-1]
		if rex&0xf8 == 0x48 && op == 0xc7 && modrm&0xf8 == 0xc0 {
			return Site{Vaddr: 3, Len: 7, Kind: MovImm32, Reg: modrm&7 | rex&1<<3}, true
		}
	}
	if imm >= 2 && b[imm-2]&0xf8 == 0x48 {
		switch op := b[imm-1]; {
		case op&0xf8 == 0xb8 && isWord(b, imm):
			return Site{Vaddr: 2, Len: 10, Kind: MovImm64, Reg: op&7 | b[imm-2]&1<<3}, true
		case op == 0x3d:
			return Site{Vaddr: 2, Len: 6, Kind: CmpImm32}, true
		}
	}
	for _, n := range modrmBefore {
		n++ // REX.W
		if imm < n || b[imm-n]&0xf8 != 0x48 {
			continue
		}
		want, kind := x86asm.MOV, StoreImm32
		switch b[imm-n+1] {
		case 0x81:
			want, kind = x86asm.CMP, CmpImm32
		case 0xc7:
		default:
			continue
		}
		if i, _ := x86.Decode(b[imm-n:], 0); i.Op == want && i.Len == n+4 {
			return Site{Vaddr: uint64(n), Len: uint8(n + 4), Kind: kind}, true
		}
	}
	if imm >= 1 && b[imm-1] == 0x68 {
		return Site{Vaddr: 1, Len: 5, Kind: PushImm32}, true
	}
	return Site{}, false
}
