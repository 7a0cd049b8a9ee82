// The file that the steps of a scan and of a plan are about.

package rewriter

import (
	"io"

	"vfix.dev/vfix/rewriter/elf"
)

// file is an ELF file, and what is known of it beside its content.
type file struct {
	*elf.File
	// budget is how many more instructions may be decoded; nil means maxSteps.
	budget *int
	// was is what vfix has done to the file; nil where it has not.
	was *patchedFile
}

// parse is Parse: the file comes with a *Skip where that returns one.
func parse(r io.ReaderAt, size int64) (*file, error) {
	f, err := elf.Parse(r, size)
	return &file{File: f}, err
}

// entries are the addresses in code that a loader enters, whether vfix has hooked them or not.
func (f *file) entries() []uint64 {
	all := f.File.Entries()
	if f.was != nil {
		if v := f.was.hooks.init; f.ExecLoad(v) {
			all = append(all, v)
		}
	}
	return all
}
