// The file that the steps of a scan and of a plan are about.

package rewriter

import (
	"io"
)

// file is an ELF file, and what is known of it beside its content.
type file struct {
	*elfFile
	// budget is how many more instructions may be decoded; nil means maxSteps.
	budget *int
	// was is set where this is the view of a patched file as it was before.
	was *patchedFile
	// tables are the entries of unwind tables that lead to the injected segment; they are read as
	// they were before.
	tables []undo
}

// parse is parseELF: the file comes with a *skipError where that returns one.
func parse(r io.ReaderAt, size int64) (*file, error) {
	f, err := parseELF(r, size)
	return &file{elfFile: f}, err
}

// entries are the addresses in code that a loader enters, whether vfix has hooked them or not.
func (f *file) entries() []uint64 {
	all := f.elfFile.entries()
	if f.was != nil {
		if v := f.was.hole(f.was.layout.InitHole); f.execLoad(v) {
			all = append(all, v)
		}
	}
	return all
}
