// The imm form: a store of the page's address gets the trampoline's own address. In a file without a fixed address,
// a jump leads to code in the injected page that stores it and jumps back. A word of Go's data gets the address of a
// system call, which needs no stack.

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

// imm returns the bytes that replace a store into a word of the frame, or a word of Go's data.
func (p *Plan) imm(s *find.Site, segment uint64, old []byte) ([]byte, error) {
	if s.Kind == find.DataWord {
		at, err := p.putAside(segment, bareSyscall(s.Function))
		return binary.LittleEndian.AppendUint64(nil, at), err
	}
	target := segment + trampoline(s, Imm)
	if p.file.Type == elf.TypeExec && target < maxImm {
		return binary.LittleEndian.AppendUint32(slices.Clone(old[:len(old)-4]), uint32(target)), nil
	}
	at := segment + uint64(asideStart()+len(p.aside))
	next := s.Vaddr + uint64(s.Len)
	if err := reach(next, at); err != nil {
		return nil, err
	}
	if _, err := p.putAside(segment, asideCode(at, next, target, old)); err != nil {
		return nil, err
	}
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
	return code
}

// bareSyscall returns the function as a system call that uses no stack, and changes rcx and r11.
func bareSyscall(f find.Function) []byte {
	return append(binary.LittleEndian.AppendUint32([]byte{0xb8}, f.Syscall()), 0x0f, 0x05, 0xc3) // mov $nr,%eax; syscall; ret
}

// putAside adds code to the injected page of a segment, and returns its vaddr.
func (p *Plan) putAside(segment uint64, code []byte) (vaddr uint64, err error) {
	if len(p.aside)+asideLen > maxAside {
		return 0, roomError("no space in the injected page")
	}
	const int3 = 0xcc
	vaddr = segment + uint64(asideStart()+len(p.aside))
	p.aside = slices.Concat(p.aside, code, slices.Repeat([]byte{int3}, asideLen-len(code)))
	return vaddr, nil
}

func jump(from, to uint64) []byte {
	return binary.LittleEndian.AppendUint32([]byte{0xe9}, uint32(to-(from+jumpLen)))
}
