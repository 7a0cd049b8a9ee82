// The search for a pair of bytes. bytes.Index looks for the first byte alone, which is frequent in code.

package elf

import (
	"bytes"
	"encoding/binary"
	"iter"
)

// Pairs returns each index from lo to below hi at which b has a pair of bytes, which is a little-endian number. The
// pair may end behind hi.
func Pairs(b []byte, lo, hi int, pair uint16) iter.Seq[int] {
	return func(yield func(int) bool) {
		hi := min(hi, len(b)-1)
		for i := lo; i < hi; i++ {
			n := indexIn(b[i:hi+1], pair)
			if n < 0 || !yield(i+n) {
				return
			}
			i += n
		}
	}
}

// indexIn returns the first index of a pair in b, -1 for none.
func indexIn(b []byte, pair uint16) int {
	if n := len(b) - 1; wide && n >= wideLeast {
		return indexPair(&b[0], n, pair)
	}
	return bytes.Index(b, binary.LittleEndian.AppendUint16(nil, pair))
}
