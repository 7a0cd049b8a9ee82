package rewriter

import "io"

// ScanCode is Scan for a file that is to be patched, not reported on: it reads the headers
// and the executable segments, and the rest only where these have a reference to the page.
// What it leaves out, words in data (DataWord), is never patched; a plan made of its
// report changes the same bytes as one made of Scan's.
//
// ExecBytes counts what was read. Of a file with more than maxExec bytes in executable
// segments nothing is searched: its report has Skipped and not Damaged.
func ScanCode(r io.ReaderAt, size, maxExec int64) (*Report, error) {
	return scanWith(r, size, scope{codeOnly: true, maxExec: uint64(max(maxExec, 0))})
}

// scope is what of a file is searched.
type scope struct {
	codeOnly bool
	maxExec  uint64 // bytes; 0: no bound
}

// within is nil where the executable segments are not larger than the bound.
func (s scope) within(f *elfFile) error {
	if s.maxExec == 0 {
		return nil
	}
	var sum uint64
	for i := range f.progs {
		if p := &f.progs[i]; p.typ == ptLoad && p.flags&pfX != 0 {
			if sum += p.filesz; sum > s.maxExec {
				return notFor("executable segments of more than %d bytes", s.maxExec)
			}
		}
	}
	return nil
}
