// The file that is searched.

package find

import (
	"io"

	"vfix.dev/vfix/rewriter/elf"
)

// File is an ELF file that is searched.
type File struct {
	*elf.File
}

// Parse is elf.Parse.
func Parse(r io.ReaderAt, size int64) (*File, error) {
	f, err := elf.Parse(r, size)
	return &File{File: f}, err
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
