// Recognising what Go's linker made. Go 1.0 calls the vsyscall page on its own small
// stacks; Go 1.1 to 1.15 keeps the addresses in data, for kernels without a vDSO.

package rewriter

import (
	"bytes"
	"encoding/binary"
)

// goSections are sections that only Go's linker writes (cmd/link/internal/ld/elf.go, and
// 6l of Go 1.0, which has .gosymtab and .gopclntab).
var goSections = [...]string{".gopclntab", ".gosymtab", ".go.buildinfo", ".note.go.buildid"}

// isGo reports whether Go's linker made the file: by its sections, or, where there are
// none, by its note or by the header of its table of functions.
func isGo(f *elfFile) (bool, error) {
	for _, name := range goSections {
		if f.section(name) != nil {
			return true, nil
		}
	}
	if hasGoNote(f) {
		return true, nil
	}
	if f.sections != nil {
		return false, nil
	}
	return hasPclntab(f)
}

// hasGoNote looks for the build ID note of Go 1.5 and later: type 4 under the name "Go".
func hasGoNote(f *elfFile) bool {
	const namesz, typ = 4, 4
	for i := range f.progs {
		p := &f.progs[i]
		if p.typ != ptNote || p.filesz < 16 || !f.inFile(p.off, 16) {
			continue
		}
		b, err := f.bytes(p.off, 16)
		if err != nil {
			return false
		}
		le := binary.LittleEndian
		if le.Uint32(b) == namesz && le.Uint32(b[8:]) == typ && string(b[12:]) == "Go\x00\x00" {
			return true
		}
	}
	return false
}

// hasPclntab looks for the head of the function table of Go 1.2 and later: a magic number,
// two zeros, the instruction quantum 1 and the pointer size 8 (debug/gosym/pclntab.go).
func hasPclntab(f *elfFile) (bool, error) {
	heads := [...][]byte{
		{0xfb, 0xff, 0xff, 0xff, 0, 0, 1, 8}, // Go 1.2
		{0xfa, 0xff, 0xff, 0xff, 0, 0, 1, 8}, // Go 1.16
	}
	found := false
	for i := range f.progs {
		p := &f.progs[i]
		if p.typ != ptLoad || p.filesz == 0 || p.flags&pfW != 0 {
			continue
		}
		err := f.chunks(p, func(b []byte, _ uint64, _, _ int) {
			for _, h := range heads {
				found = found || bytes.Contains(b, h)
			}
		})
		if err != nil || found {
			return found, err
		}
	}
	return false, nil
}
