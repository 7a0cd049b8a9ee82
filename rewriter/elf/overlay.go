// The bytes behind the end of an ELF file: an archive appended to a self-extracting program, or the linker's tail
// after its headers were removed.

package elf

import (
	"bytes"
	"encoding/binary"
	"slices"
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
	if rest < PageSize && len(bytes.Trim(f.Bytes(end, rest), "\x00")) == 0 ||
		f.Sections == nil && rest <= maxTail && f.isTail(f.Bytes(end, rest), end) {
		return 0
	}
	return rest
}

// maxTail is the longest tail of a file that is examined, in bytes.
const maxTail = 1 << 26

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

// isTail reports whether b, the bytes from offset end to the end of the file, has only what a linker puts behind
// the loaded bytes: sections with their section headers; and section names, compilers' names and zeros.
func (f *File) isTail(b []byte, end uint64) bool {
	if !bytes.Contains(b, []byte("\x00.shstrtab\x00")) {
		return false
	}
	zero := make([]byte, ShdrSize) // the first section header
	try := func(at int) bool {
		if !bytes.HasPrefix(b[at:], zero) {
			return false
		}
		left, n := f.uncovered(b, end, at)
		// The file ends within the section headers that its header announces.
		return tailText(left) || end+uint64(at) == f.ShOff && n < f.ShNum && len(b)-at-n*ShdrSize < ShdrSize
	}
	if f.ShOff-end < uint64(len(b)) && try(int(f.ShOff-end)) {
		return true
	}
	const second = ShdrSize + 4 // the type of the next one
	for at, tries := int(-end&3), 0; at+second+4 <= len(b) && tries < maxTries; at += 4 {
		if binary.LittleEndian.Uint32(b[at+second:]) != 0 && bytes.HasPrefix(b[at:], zero) {
			if tries++; try(at) {
				return true
			}
		}
	}
	return tailText(bytes.Clone(b))
}

// maxTries is how many possible starts of section headers are tried.
const maxTries = 64

// uncovered returns b with zeros in place of the section headers at an index and of their sections, and the number
// of headers.
func (f *File) uncovered(b []byte, end uint64, at int) (left []byte, n int) {
	left = bytes.Clone(b)
	le := binary.LittleEndian
	for n = 1; at+(n+1)*ShdrSize <= len(b); n++ {
		h := b[at+n*ShdrSize:]
		typ, off, size, align := le.Uint32(h[4:]), le.Uint64(h[24:]), le.Uint64(h[32:]), le.Uint64(h[48:])
		if typ == 0 || align&(align-1) != 0 || le.Uint64(h[8:])>>32 != 0 || le.Uint32(h) > MaxShnum ||
			typ != SHTNobits && (off < EhdrSize || !f.InFile(off, size)) {
			break
		}
		if typ != SHTNobits && off+size > end {
			clear(left[max(off, end)-end : off+size-end])
		}
	}
	clear(left[at : at+n*ShdrSize])
	return left, n
}

// tailText reports whether b has only zeros, names of sections and those of compilers.
func tailText(b []byte) bool {
	for s := range bytes.SplitSeq(b, []byte{0}) {
		switch {
		case len(s) == 0, bytes.HasPrefix(s, []byte("GCC: (")), bytes.HasPrefix(s, []byte("Linker: ")), bytes.HasPrefix(s, []byte("clang version ")):
		case s[0] == '.' && !slices.ContainsFunc(s, func(c byte) bool {
			return c <= ' ' || c > '~'
		}):
		default:
			return false
		}
	}
	return true
}
