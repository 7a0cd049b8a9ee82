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

// TooMuch returns why a file has too much to search; nil for other files: its segments cover it too often, or the
// executable ones have more than maxExec bytes. 0 means no limit.
func (f *File) TooMuch(maxExec uint64) *Skip {
	if skip := f.CheckLoads(); skip != nil || maxExec == 0 || f.CodeSize() <= maxExec {
		return skip
	}
	return elf.NewSkip(elf.KindTooMuchCode, "executable segments of more than %d bytes", maxExec)
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
