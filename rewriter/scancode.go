// Scans that are bounded by how much of a file is code.

package rewriter

import (
	"io"

	"vfix.dev/vfix/rewriter/elf"
)

// ScanWithin is Scan with a bound: of a file with more than maxExec bytes in executable
// segments nothing is searched, and its report is skipped for SkipTooMuchCode.
func ScanWithin(r io.ReaderAt, size, maxExec int64) (*Report, error) {
	return scanWith(r, size, scope{maxExec: uint64(max(maxExec, 0))})
}

// scope is what of a file is searched.
type scope struct {
	maxExec uint64 // bytes; 0: no bound
}

// within is nil where the executable segments are not larger than the bound.
func (s scope) within(f *file) *Skip {
	if s.maxExec == 0 {
		return nil
	}
	var sum uint64
	for i := range f.Progs {
		if p := &f.Progs[i]; p.Type == elf.PTLoad && p.Flags&elf.PFX != 0 {
			if sum += p.Filesz; sum > s.maxExec {
				return elf.NewSkip(elf.KindTooMuchCode, "executable segments of more than %d bytes", s.maxExec)
			}
		}
	}
	return nil
}
