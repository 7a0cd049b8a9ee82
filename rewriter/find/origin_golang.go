// Files from Go's linker. Go 1.0 calls the vsyscall page on its own small stacks; Go 1.1 to 1.15 has the addresses
// in data, for kernels without a vDSO.

package find

import (
	"bytes"
	"encoding/binary"
	"slices"

	"vfix.dev/vfix/rewriter/elf"
)

// goSections are sections that only Go's linker writes (cmd/link/internal/ld/elf.go, and
// 6l of Go 1.0, which has .gosymtab and .gopclntab).
var goSections = [...]string{".gopclntab", ".gosymtab", ".go.buildinfo", ".note.go.buildid"}

// madeByGo reports whether Go's linker made the file: by its sections, or, if there are
// none, by its note or by the header of its table of functions.
func madeByGo(f *elf.File) bool {
	for _, name := range goSections {
		if f.Section(name) != nil {
			return true
		}
	}
	return hasGoNote(f) || f.Sections == nil && hasPclntab(f)
}

// hasGoNote finds the build ID note of Go 1.5 and later: type 4 with the name "Go".
func hasGoNote(f *elf.File) bool {
	const namesz, typ, size = 4, 4, 16
	return slices.ContainsFunc(f.Progs, func(p elf.Prog) bool {
		b, le := f.Bytes(p.Off, min(p.Filesz, size)), binary.LittleEndian
		return p.Type == elf.PTNote && len(b) == size && le.Uint32(b) == namesz && le.Uint32(b[8:]) == typ && string(b[12:]) == "Go\x00\x00"
	})
}

// hasPclntab finds the head of the function table of Go 1.2 and later: a magic number, two zeros, the instruction
// quantum 1 and the pointer size 8 (debug/gosym/pclntab.go); or the name of a function that each Go program has,
// which earlier tables also have.
func hasPclntab(f *elf.File) bool {
	heads := [...][]byte{
		{0xfb, 0xff, 0xff, 0xff, 0, 0, 1, 8}, // Go 1.2
		{0xfa, 0xff, 0xff, 0xff, 0, 0, 1, 8}, // Go 1.16
		[]byte("runtime.goexit\x00"),
	}
	found := false
	f.EachChunk(0, elf.PFW, func(_ *elf.Prog, b []byte, _ uint64, _, _ int) {
		for _, h := range heads {
			found = found || bytes.Contains(b, h)
		}
	})
	return found
}
