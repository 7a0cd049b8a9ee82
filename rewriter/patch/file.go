// The file that a plan is about.

package patch

import (
	"io"

	"vfix.dev/vfix/rewriter/elf"
	"vfix.dev/vfix/rewriter/find"
	"vfix.dev/vfix/shim"
)

// file is an ELF file, and what vfix has done to it before; nil if nothing.
type file struct {
	*find.File
	was *patchedFile
}

// fileOf returns the file behind a report; or nil.
func fileOf(r *find.Report) (*file, error) {
	if r.File == nil {
		return nil, nil
	}
	was, err := patched(r.File.File)
	return &file{r.File, was}, err
}

// Scan finds the references to the page in the size bytes behind r, as find.References does; a file that vfix
// has patched must be sound, and in a format that is known.
func Scan(r io.ReaderAt, size int64) (*find.Report, error) {
	return find.References(r, size, find.Scope{Marks: mark})
}

// ScanWithin is Scan with a bound: of a file with more than maxExec bytes in executable
// segments nothing is searched, and its report is skipped for elf.KindTooMuchCode.
func ScanWithin(r io.ReaderAt, size, maxExec int64) (*find.Report, error) {
	return find.References(r, size, find.Scope{Marks: mark, MaxExec: uint64(max(maxExec, 0))})
}

// mark says what vfix has done to a file before.
func mark(f *elf.File) (m find.Mark, err error) {
	segment, version := injected(f)
	m.Version = version
	if segment == nil {
		return m, nil
	}
	if magic := shim.Magic(); version != string(magic[len(magic)-1:]) {
		m.Skip = elf.NewSkip(elf.KindFormat, "patched by another version of vfix, in format %q, which this version does not know", version)
		return m, nil
	}
	was, err := patched(f)
	if err != nil {
		return m, err
	}
	if m.Skip, err = unsound(f, segment, was); m.Skip == nil && err == nil {
		m.Roots, m.Fix = []uint64{was.hooks.init}, was.fix
	}
	return m, err
}
