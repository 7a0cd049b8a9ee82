// The file of a plan.

package patch

import (
	"io"

	"vfix.dev/vfix/rewriter/elf"
	"vfix.dev/vfix/rewriter/find"
	"vfix.dev/vfix/shim"
)

// file is an ELF file, and vfix's earlier patch of it; nil if there is none.
type file struct {
	*find.File
	was *patchedFile
}

// fileOf returns the file of a report; or nil.
func fileOf(r *find.Report) *file {
	if r.File == nil {
		return nil
	}
	return &file{r.File, patched(r.File.File)}
}

// Scan finds the references to the page in the file in r, which has size bytes, as find.References does; a file
// that vfix has patched must be intact, and in a known format.
func Scan(r io.ReaderAt, size int64) (*find.Report, error) {
	return find.References(r, size, find.Scope{Marks: mark})
}

// ScanWithin is Scan with a limit: a file with more than maxExec bytes in executable segments is skipped with
// elf.KindTooMuchCode.
func ScanWithin(r io.ReaderAt, size, maxExec int64) (*find.Report, error) {
	return find.References(r, size, find.Scope{Marks: mark, MaxExec: uint64(max(maxExec, 0))})
}

// mark returns vfix's earlier patch of a file.
func mark(f *elf.File) (m find.Mark) {
	segment, version := injected(f)
	m.Version = version
	if segment == nil {
		if lost(f) {
			m.Skip = elf.NewSkip(elf.KindBroken, "it no longer has the injected segment")
		}
		return m
	}
	if magic := shim.Magic(); version != string(magic[len(magic)-1:]) {
		m.Skip = elf.NewSkip(elf.KindFormat, "patched by another version of vfix, in format %q, which this version does not know", version)
		return m
	}
	was := patched(f)
	if m.Skip = unsound(f, segment, was); m.Skip == nil {
		m.Fix = was.fix
	}
	return m
}
