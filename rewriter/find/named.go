// A quick look at a file: whether it may have references.

package find

import (
	"io"

	"vfix.dev/vfix/rewriter/elf"
)

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
