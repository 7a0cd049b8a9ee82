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

// Scan finds the references to the page in the file in r, which has size bytes, with a verdict on each. It writes
// nothing. It returns an error only if a read fails: a file that is not for vfix, or is damaged, has Report.Skipped. A
// file that vfix has patched must be intact, and in a known format.
func Scan(r io.ReaderAt, size int64) (*find.Report, error) {
	f, err := find.Parse(r, size)
	skip, err := elf.AsSkip(err)
	if skip != nil || err != nil {
		return &find.Report{Skipped: skip}, err
	}
	rep := &find.Report{Skipped: f.CheckLoads()}
	if rep.Skipped == nil {
		rep = scan(f)
	}
	if f.Err() != nil {
		return nil, f.Err()
	}
	return rep, nil
}

// scan finds the references in a file that vfix may have patched.
func scan(f *find.File) *find.Report {
	version, fix, skip := earlier(f.File)
	if skip != nil {
		return &find.Report{Skipped: skip}
	}
	rep := f.Scan()
	rep.Injected, rep.Fixed = version, fix
	return rep
}

// earlier returns the format version and the fix of an earlier patch by vfix; both are "" for a file without one. skip is
// why the file is not examined: its patch is damaged, or has an unknown format.
func earlier(f *elf.File) (version string, fix find.Fix, skip *elf.Skip) {
	segment, version := injected(f)
	magic := shim.Magic()
	switch {
	case segment == nil && lost(f):
		return "", "", elf.NewSkip(elf.KindBroken, "it no longer has the injected segment")
	case segment == nil:
		return "", "", nil
	case version != string(magic[len(magic)-1:]):
		return "", "", elf.NewSkip(elf.KindFormat, "patched by another version of vfix, in format %q, which this version does not know", version)
	}
	was := patched(f)
	if skip = unsound(f, segment, was); skip != nil {
		return "", "", skip
	}
	return version, was.fix, nil
}
