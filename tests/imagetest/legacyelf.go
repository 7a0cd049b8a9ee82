// The smallest ELF file that vfix patches, and what becomes of it.

package imagetest

import (
	"bytes"
	"encoding/binary"
)

// The smallest file that the rewriter patches: ELF header, one PT_LOAD R-X that maps the
// whole file, and a function that calls time() in the vsyscall page, with its entry in an
// unwind table. There is no PT_NOTE
// and so no room for a trampoline: the syscall form is used.
const (
	legacyVaddr = 0x400000
	LegacyCode  = 64 + 56 + 44 // file offset of the function
)

// CallTime is sub $8,%rsp; mov $0xffffffffff600400,%rax; call *%rax; add $8,%rsp; ret: glibc's function as a whole.
var CallTime = []byte{0x48, 0x83, 0xec, 0x08, 0x48, 0xc7, 0xc0, 0x00, 0x04, 0x60, 0xff, 0xff, 0xd0, 0x48, 0x83, 0xc4, 0x08, 0xc3}

// callTimeFixed is what vfix makes of it: push %rcx; push %r11; mov $201,%eax; syscall; pop %r11; pop %rcx; ret; and
// the rest.
var callTimeFixed = []byte{0x51, 0x41, 0x53, 0xb8, 0xc9, 0x00, 0x00, 0x00, 0x0f, 0x05, 0x41, 0x5b, 0x59, 0xc3, 0x83, 0xc4, 0x08, 0xc3}

// unwindTable gives the end of the function, which is n bytes long and right behind it.
func unwindTable(n int) []byte {
	const cie = "\x14\x00\x00\x00\x00\x00\x00\x00\x01zR\x00\x01\x78\x10\x01\x1b\x0c\x07\x08\x90\x01\x00\x00"
	var b bytes.Buffer
	b.WriteString(cie)
	// Its length, the way back to the CIE, the distance to the function, its length, no more data.
	binary.Write(&b, binary.LittleEndian, []uint32{16, uint32(len(cie)) + 4, 12, uint32(n), 0})
	return b.Bytes()
}

// LegacyELF is such a file; text makes files differ.
func LegacyELF(text string) []byte { return testELF(CallTime, text) }

// ModernELF is the same without the call.
func ModernELF(text string) []byte { return testELF([]byte{0x31, 0xc0, 0xc3}, text) }

func testELF(code []byte, text string) []byte {
	var b bytes.Buffer
	size := uint64(LegacyCode + len(code) + len(text))
	le := binary.LittleEndian
	put := func(v any) { binary.Write(&b, le, v) }
	b.WriteString("\x7fELF\x02\x01\x01")
	b.Write(make([]byte, 9))
	put([]uint16{2, 62})                             // ET_EXEC, EM_X86_64
	put(uint32(1))                                   // e_version
	put([]uint64{legacyVaddr + LegacyCode, 64, 0})   // e_entry, e_phoff, e_shoff
	put(uint32(0))                                   // e_flags
	put([]uint16{64, 56, 1, 0, 0, 0})                // e_ehsize … e_shstrndx
	put([]uint32{1, 5})                              // PT_LOAD, R-X
	put([]uint64{0, legacyVaddr, legacyVaddr, size}) // p_offset, p_vaddr, p_paddr, p_filesz
	put([]uint64{size, 0x1000})                      // p_memsz, p_align
	b.Write(unwindTable(len(code)))
	b.Write(code)
	b.WriteString(text)
	return b.Bytes()
}

// FixedELF is what vfix makes of LegacyELF.
func FixedELF(text string) []byte { return testELF(callTimeFixed, text) }
