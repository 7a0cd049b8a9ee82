// The search for pairs of bytes, up to three in one look at the memory.

package elf

import (
	"bytes"
	"encoding/binary"
	"iter"
)

// maxPairs is how many pairs one look at the memory finds.
const maxPairs = 3

// Pairs gives each index from lo to below hi at which one of the pairs, as little-endian numbers, is in b.
// The indices ascend if there are at most three pairs. A pair may end behind hi.
func Pairs(b []byte, lo, hi int, pairs []uint16) iter.Seq[int] {
	return func(yield func(int) bool) {
		on := true
		for left := pairs; len(left) > 0 && on; left = left[min(maxPairs, len(left)):] {
			some := [maxPairs]uint16{left[0], left[0], left[0]}
			copy(some[:], left)
			search := plainPairs
			if wide {
				search = widePairs
			}
			search(b, lo, min(hi, len(b)-1), &some, func(i int) bool {
				on = yield(i)
				return on
			})
		}
	}
}

// widePairs is Pairs for three pairs with AVX2.
func widePairs(b []byte, lo, hi int, pairs *[maxPairs]uint16, yield func(int) bool) {
	for i := lo; i < hi; i++ {
		if n := hi - i; n < wideLeast {
			plainPairs(b, i, hi, pairs, yield)
			return
		} else if n = indexPairs(&b[i], n, pairs); n < 0 || !yield(i+n) {
			return
		} else {
			i += n
		}
	}
}

// plainPairs is Pairs for three pairs on any machine. Each pair is looked for once from end to end, whatever
// there is of the others.
func plainPairs(b []byte, lo, hi int, pairs *[maxPairs]uint16, yield func(int) bool) {
	next := [maxPairs]int{lo - 1, lo - 1, lo - 1}
	for i := lo; i < hi; i++ {
		nearest := hi
		for k, p := range pairs {
			if next[k] < i {
				if next[k] = hi; k == 0 || p != pairs[0] {
					needle := binary.LittleEndian.AppendUint16(nil, p)
					if n := bytes.Index(b[i:hi+1], needle); n >= 0 {
						next[k] = i + n
					}
				}
			}
			nearest = min(nearest, next[k])
		}
		if i = nearest; i >= hi || !yield(i) {
			return
		}
	}
}
