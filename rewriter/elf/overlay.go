// The bytes behind the end of an ELF file, as an archive that is appended to a self-extracting program, or a
// linker's tail after its headers were removed.

package elf

import (
	"bytes"
	"encoding/binary"
)

// Overlay returns the number of bytes behind everything in the headers, 0 for padding of less than a page, and for
// the remains of sections.
func (f *File) Overlay() uint64 {
	end := max(f.PhOff+uint64(len(f.Progs))*PhdrSize, EhdrSize)
	for _, p := range f.Progs {
		if p.Filesz > 0 && f.InFile(p.Off, p.Filesz) {
			end = max(end, p.Off+p.Filesz)
		}
	}
	if n := uint64(f.ShNum) * ShdrSize; f.InFile(f.ShOff, n) && f.ShNum > 0 {
		end = max(end, f.ShOff+n)
	}
	for _, s := range f.Sections {
		if s.Type != SHTNobits {
			end = max(end, s.Off+s.Size)
		}
	}
	rest := f.Size - end
	padding := rest < PageSize && len(bytes.Trim(f.Bytes(end, rest), "\x00")) == 0
	if padding || f.Sections == nil && rest <= maxTail && f.isTail(f.Bytes(end, rest), end) {
		return 0
	}
	return rest
}

// maxTail is the longest tail of a file that is examined, in bytes.
const maxTail = 1 << 26

// isTail reports whether b, the bytes from offset end to the end of the file, is what a linker puts behind the loaded
// bytes, although the ELF header does not name it: section headers up to the file's end, of which one has their names;
// or only such names.
func (f *File) isTail(b []byte, end uint64) bool {
	le := binary.LittleEndian
	zero := make([]byte, ShdrSize) // the first section header
	for at, names := len(b)-ShdrSize, false; at >= 0; at -= ShdrSize {
		h := b[at:][:ShdrSize]
		if bytes.Equal(h, zero) {
			return names
		}
		off, size := le.Uint64(h[24:]), le.Uint64(h[32:])
		if le.Uint32(h[4:]) == SHTStrtab && off >= end && f.InFile(off, size) {
			names = names || bytes.Contains(b[off-end:][:size], []byte("\x00.shstrtab\x00"))
		}
	}
	for text := range bytes.SplitSeq(b, []byte{0}) {
		if len(text) > 0 && text[0] != '.' && !bytes.HasPrefix(text, []byte("GCC: (")) {
			return false
		}
	}
	return bytes.Contains(b, []byte("\x00.shstrtab\x00"))
}

// Payload returns the name of a section with an application's own data, "" for none. Names that begin with a dot
// are the system's (gABI, "Special Sections"); a program that reads such a section from its own file, as
// PyInstaller's do ("pydata"), may search for it from the file's end.
func (f *File) Payload() string {
	for _, s := range f.Sections {
		if s.Type == SHTProgbits && s.Flags&SHFAlloc == 0 && s.Size > 0 && s.Name != "" && s.Name[0] != '.' {
			return s.Name
		}
	}
	return ""
}
