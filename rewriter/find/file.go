// The file that is searched.

package find

import (
	"io"

	"vfix.dev/vfix/rewriter/elf"
)

// File is an ELF file that is searched.
type File struct {
	*elf.File
	// Roots are addresses in code that a loader enters and that the headers do not have: the continuations of the
	// hooks in a patched file.
	Roots  []uint64
	budget *budget // of its archive, nil outside of objects
}

// Parse is elf.Parse: it returns the file even with a *Skip as error.
func Parse(r io.ReaderAt, size int64) (*File, error) {
	f, err := elf.Parse(r, size)
	return &File{File: f}, err
}

// entries returns the addresses in code that a loader enters, hooked or not.
func (f *File) entries() []uint64 {
	all := f.File.Entries()
	for _, v := range f.Roots {
		if f.ExecLoad(v) {
			all = append(all, v)
		}
	}
	return all
}

// Start returns the start of the function around vaddr if it is known and at most most bytes before it; else
// vaddr.
func (f *File) Start(vaddr, most uint64) uint64 {
	fn := findFunctions(f, []Site{{Vaddr: vaddr}})
	if start, ok := fn.starts.enclosing(vaddr); ok && vaddr-start <= most {
		return start
	}
	return vaddr
}
