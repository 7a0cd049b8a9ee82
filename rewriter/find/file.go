// The file that is searched.

package find

import (
	"io"

	"vfix.dev/vfix/rewriter/elf"
)

// File is an ELF file that is searched.
type File struct {
	*elf.File
	// Roots are addresses in code that a loader enters and that the headers do not name: what the hooks of
	// a patched file go on to.
	Roots []uint64
	// budget is how many more instructions may be decoded; nil means maxSteps.
	budget *int
}

// Parse is that of elf: the file comes with a *Skip if that returns one.
func Parse(r io.ReaderAt, size int64) (*File, error) {
	f, err := elf.Parse(r, size)
	return &File{File: f}, err
}

// entries are the addresses in code that a loader enters, whether they are hooked or not.
func (f *File) entries() []uint64 {
	all := f.File.Entries()
	for _, v := range f.Roots {
		if f.ExecLoad(v) {
			all = append(all, v)
		}
	}
	return all
}

// Start returns where the function around vaddr begins, if that is known and at most so many bytes before it;
// else vaddr.
func (f *File) Start(vaddr, most uint64) (uint64, error) {
	fn, err := findFunctions(f, []Site{{Vaddr: vaddr, Len: 1}})
	if err != nil {
		return 0, err
	}
	if start, ok := fn.starts.enclosing(vaddr); ok && vaddr-start <= most {
		return start, nil
	}
	return vaddr, nil
}
