// The bytes behind the end of an ELF file: an archive appended to a self-extracting program, or anything else that the
// headers do not describe.

package elf

import (
	"bytes"
)

// Overlay returns the number of bytes behind everything in the headers, 0 for padding of less than a page.
func (f *File) Overlay() (uint64, error) {
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
		if s.Index > 0 && s.Type != SHTNobits {
			end = max(end, s.Off+s.Size)
		}
	}
	rest := f.Size - end
	if rest >= PageSize {
		return rest, nil
	}
	b, err := f.Bytes(end, rest)
	if err == nil && len(bytes.Trim(b, "\x00")) == 0 {
		rest = 0
	}
	return rest, err
}

// Payload returns the name of a section with an application's own data, "" for none. Names that begin with a dot
// are the system's (gABI, "Special Sections"); a program that reads such a section from its own file, as
// PyInstaller's do ("pydata"), may search for it from the file's end.
func (f *File) Payload() string {
	for _, s := range f.Sections {
		if s.Index > 0 && s.Type == SHTProgbits && s.Flags&SHFAlloc == 0 && s.Size > 0 && s.Name != "" && s.Name[0] != '.' {
			return s.Name
		}
	}
	return ""
}
