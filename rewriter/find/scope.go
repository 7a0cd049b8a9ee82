// The options of a search.

package find

import (
	"io"

	"vfix.dev/vfix/rewriter/elf"
)

// Scope limits the search in a file.
type Scope struct {
	// MaxExec is the maximum size of executable segments, in bytes: a larger file is skipped with
	// elf.KindTooMuchCode. 0 means no limit.
	MaxExec uint64
	// Marks returns earlier changes to a file; nil if they do not matter.
	Marks func(f *elf.File) Mark
}

// Mark is the facts about an earlier patch of a file.
type Mark struct {
	Version string // of the format, "" for none
	Fix     Fix    // that the file has, "" for none
	Skip    *Skip  // why it is skipped; nil if it is not
}

// within returns nil if the segments do not cover the file too often, and the executable ones are within the
// limit.
func (o *Scope) within(f *File) *Skip {
	if skip := f.CheckLoads(); skip != nil || o.MaxExec == 0 || f.CodeSize() <= o.MaxExec {
		return skip
	}
	return elf.NewSkip(elf.KindTooMuchCode, "executable segments of more than %d bytes", o.MaxExec)
}

// Named reports whether a file of any format has the bytes of a reference to the page: few others do. buf is larger than
// twice the longest reference.
func Named(r io.ReaderAt, size int64, buf []byte) (bool, error) {
	const around = 16 // bytes before and behind an address that belong to a reference
	for at := int64(0); ; at += int64(len(buf)) - 2*around {
		b := buf[:min(int64(len(buf)), size-at)]
		if _, err := r.ReadAt(b, at); err != nil {
			return false, err
		}
		for i := range elf.Pairs(b, 2, len(b), pagePair) {
			if _, ok := functionAt(b, i); !ok {
				continue
			}
			if _, code := referenceAt(b, i-2); code || isWord(b, i-2) {
				return true, nil
			}
		}
		if at+int64(len(b)) == size {
			return false, nil
		}
	}
}
