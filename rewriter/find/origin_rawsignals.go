// Programs that set up signals with their own system calls: a preload library cannot intercept these, and so
// cannot keep its SIGSEGV handler.

package find

import (
	"bytes"

	"vfix.dev/vfix/rewriter/elf"
)

// rawSignalCalls load the number of rt_sigaction (13) or rt_sigprocmask (14) into eax, in the encodings of
// compilers and programmers (arch/x86/entry/syscalls/syscall_64.tbl): b8 imm32, REX.W c7 c0 imm32, push imm8 and
// pop %rax.
var rawSignalCalls = [...][]byte{
	{0xb8, 13, 0, 0, 0}, {0xb8, 14, 0, 0, 0},
	{0xc7, 0xc0, 13, 0, 0, 0}, {0xc7, 0xc0, 14, 0, 0, 0},
	{0x6a, 13, 0x58}, {0x6a, 14, 0x58},
}

// rawSignalSpan is the distance behind such a load within which the syscall instruction follows, in bytes, with a
// few more arguments between. With the load it is less than the overlap of chunks, 2*ChunkMargin.
const rawSignalSpan = 20

// rawSignals reports whether a dynamic program sets up signals itself. A C library, which does so for all others,
// does not count; an executable one has a name (DT_SONAME).
func rawSignals(f *elf.File) bool {
	if f.Prog(elf.PTInterp) == nil || f.Dyn(elf.DTSoname) != nil {
		return false
	}
	found := false
	f.EachChunk(elf.PFX, 0, func(_ *elf.Prog, b []byte, _ uint64, _, _ int) {
		for _, load := range rawSignalCalls {
			found = found || rawSignalIn(b, load)
		}
	})
	return found
}

// rawSignalIn reports whether a load in b is followed by a syscall instruction.
func rawSignalIn(b, load []byte) bool {
	syscall := []byte{0x0f, 0x05}
	for i := range elf.Indexes(b, 0, len(b), load) {
		behind := b[i+len(load):]
		if bytes.Contains(behind[:min(len(behind), rawSignalSpan+len(syscall))], syscall) {
			return true
		}
	}
	return false
}
