// The imm form: a store of the page's address gets the trampoline's own address. In a file without a fixed address,
// a jump leads to code in the injected page that stores it and jumps back.

package patch

import (
	"encoding/binary"
	"slices"

	"vfix.dev/vfix/rewriter/elf"
	"vfix.dev/vfix/rewriter/find"
	"vfix.dev/vfix/rewriter/x86"
	"vfix.dev/vfix/shim"
)

const (
	// asideLen is the length in bytes of code aside, padded: the longest word operand has six bytes.
	asideLen = 32
	// maxAside is how much of the injected page code aside may take, in bytes: the rest is for unwinders.
	maxAside = 1024
	// maxImm is the end of the addresses that an immediate of 32 bits with a sign can have.
	maxImm = 1 << 31

	jumpLen = 5 // of jmp rel32
)

// asideStart returns the offset in the injected page at which code aside begins.
func asideStart() int { return (max(len(shim.Code()), len(shim.JavaCode())) + 15) &^ 15 }

// imm returns the bytes that replace a store of 8 or more bytes into a word of the frame.
func (p *Plan) imm(s *find.Site, segment uint64, old []byte) ([]byte, error) {
	target := segment + trampoline(s, Imm)
	if p.file.Type == elf.TypeExec && target < maxImm {
		return binary.LittleEndian.AppendUint32(slices.Clone(old[:len(old)-4]), uint32(target)), nil
	}
	at := segment + uint64(asideStart()+len(p.aside))
	next := s.Vaddr + uint64(s.Len)
	if !inReach(next, at) || len(p.aside)+asideLen > maxAside {
		return nil, roomError("no space in the injected page, or out of reach")
	}
	p.aside = append(p.aside, asideCode(at, next, target, old)...)
	return append(slices.Clone(x86.Nops[s.Len-jumpLen]), jump(next-jumpLen, at)...), nil
}

// asideCode returns the code at a vaddr that stores target where the store old does, and continues at next. It changes
// no register and no flag:
//
//	mov %rax,WORD
//	lea target(%rip),%rax
//	xchg %rax,WORD
//	jmp next
func asideCode(at, next, target uint64, old []byte) []byte {
	rex, word := old[0], old[2:len(old)-4] // C7 /0: its ModRM has the number of rax
	code := slices.Concat([]byte{rex, 0x89}, word, []byte{0x48, 0x8d, 0x05})
	code = binary.LittleEndian.AppendUint32(code, uint32(target-(at+uint64(len(code))+4)))
	code = slices.Concat(code, []byte{rex, 0x87}, word)
	code = append(code, jump(at+uint64(len(code)), next)...)
	const int3 = 0xcc
	return append(code, slices.Repeat([]byte{int3}, asideLen-len(code))...)
}

func jump(from, to uint64) []byte {
	return binary.LittleEndian.AppendUint32([]byte{0xe9}, uint32(to-(from+jumpLen)))
}
