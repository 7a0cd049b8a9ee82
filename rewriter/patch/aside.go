// Code aside: an instruction that stores the page's address has no room for another address in a file without a
// fixed place. A jump over it leads to code in the injected page that stores the trampoline's, and jumps back.

package patch

import (
	"encoding/binary"
	"slices"

	"golang.org/x/arch/x86/x86asm"

	"vfix.dev/vfix/rewriter/elf"
	"vfix.dev/vfix/rewriter/find"
	"vfix.dev/vfix/rewriter/x86"
)

// asideLen is the length in bytes of such code, padded: the longest operand has six bytes.
const asideLen = 32

// inJump reports whether the site gets such code in f.
func inJump(f *elf.File, s *find.Site) bool {
	return f.Type != elf.TypeExec && s.Stores()
}

// goAside plans the code for a site, and returns the bytes that replace the site. It changes no register, no flag and
// nothing else on the stack:
//
//	mov %rax,WORD      or push %rax
//	lea trampoline(%rip),%rax
//	xchg %rax,WORD
//	jmp back
func (p *Plan) goAside(s *find.Site, segment uint64, old []byte) ([]byte, error) {
	behind, sites := len(p.aside)+asideLen, len(p.Patches)
	if was := p.file.was; was != nil {
		behind, sites = behind+len(was.tail), sites+len(was.sites)
	}
	at := segment + elf.PageSize - uint64(behind)
	next := s.Vaddr + uint64(s.Len)
	if !inReach(next, at) || behind > unwindRoom(sites)/2 { // the other half is for unwinders
		return nil, roomError("no space in the injected page, or out of reach")
	}
	jump := func(from, to uint64) []byte {
		return binary.LittleEndian.AppendUint32([]byte{0xe9}, uint32(to-(from+jumpLen)))
	}
	save, rex, word := []byte{0x50}, byte(0x48), []byte{0x04, 0x24} // push %rax; (%rsp)
	if s.Kind == find.StoreImm32 {
		i, _ := x86.Decode(old, s.Vaddr)
		if m, _ := i.Mem(); m.Base != x86asm.RSP && m.Base != x86asm.RBP || m.Index != 0 { // rax and rip differ there
			return nil, roomError("it does not store into the frame")
		}
		rex, word = old[0]&^4, old[2:len(old)-4] // without REX.R, which counts in the others; C7 /0 has the number of rax
		save = append([]byte{rex, 0x89}, word...)
	}
	lea := at + uint64(len(save)) + 7
	code := append(save, 0x48, 0x8d, 0x05)
	code = binary.LittleEndian.AppendUint32(code, uint32(segment+trampoline(s, Imm)-lea))
	code = append(append(code, rex, 0x87), word...)
	code = append(code, jump(at+uint64(len(code)), next)...)
	code = append(code, slices.Repeat([]byte{0xcc}, asideLen-len(code))...)
	p.aside = append(code, p.aside...)
	return append(slices.Clone(x86.Nops[s.Len-jumpLen]), jump(next-jumpLen, at)...), nil
}

// fromAside returns the offset in the segment of the trampoline whose address the code aside at an offset stores; of
// anything else, the offset itself.
func (w *patchedFile) fromAside(to uint64) uint64 {
	begin := elf.PageSize - uint64(len(w.tail))
	if to < begin || to >= elf.PageSize {
		return to
	}
	code := w.tail[to-begin:]
	save, _ := x86.Decode(code, w.segment.Vaddr+to)
	lea, _ := x86.Decode(code[save.Len:], save.Next())
	if v, fixed := lea.MemVaddr(); fixed && lea.Op == x86asm.LEA {
		return v - w.segment.Vaddr
	}
	return to
}
