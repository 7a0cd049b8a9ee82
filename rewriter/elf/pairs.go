// The search for pairs of bytes, several in one pass over the memory.

package elf

import (
	"bytes"
	"encoding/binary"
	"iter"
	"slices"
)

// looked are the pairs of one pass: those of the first group have the same second byte, and so do those of the
// second group. Unused entries repeat the first one of their group.
type looked [groupA + groupB]uint16

const groupA, groupB = 3, 2

// Pairs returns each index from lo to below hi at which b has one of the pairs, which are little-endian numbers,
// in any order. A pair may end behind hi.
func Pairs(b []byte, lo, hi int, pairs []uint16) iter.Seq[int] {
	return func(yield func(int) bool) {
		search := plainPairs
		if wide {
			search = widePairs
		}
		on := true
		for left := slices.Clone(pairs); len(left) > 0 && on; {
			some := look(&left)
			search(b, lo, min(hi, len(b)-1), &some, func(i int) bool {
				on = yield(i)
				return on
			})
		}
	}
}

// look removes as many of the pairs as one pass can find.
func look(pairs *[]uint16) (l looked) {
	group := func(to []uint16) {
		if len(*pairs) == 0 {
			return
		}
		n, first := 0, (*pairs)[0]
		*pairs = slices.DeleteFunc(*pairs, func(p uint16) bool {
			if n == len(to) || p>>8 != first>>8 {
				return false
			}
			to[n] = p
			n++
			return true
		})
		for ; n < len(to); n++ {
			to[n] = first
		}
	}
	group(l[:groupA])
	copy(l[groupA:], l[:])
	group(l[groupA:])
	return l
}

// widePairs is Pairs for one pass with AVX2.
func widePairs(b []byte, lo, hi int, pairs *looked, yield func(int) bool) {
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

// plainPairs is Pairs for one pass on any machine. It searches for each pair once from end to end, independently
// of the others.
func plainPairs(b []byte, lo, hi int, pairs *looked, yield func(int) bool) {
	next := [...]int{-1, -1, -1, -1, -1}
	for i := lo; i < hi; i++ {
		nearest := hi
		for k, p := range pairs {
			if next[k] < i {
				if next[k] = hi; !slices.Contains(pairs[:k], p) {
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
