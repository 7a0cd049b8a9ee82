// The proofs that are needed before bytes of a file are changed: that an instruction begins there, and that
// nothing enters its middle.

package find

import (
	"sort"
)

// holder returns the code of the function that reaches vaddr, nil if none is known to: of
// the functions that begin before it the nearest, and of those the ones whose end is known
// first.
func (c *code) holder(vaddr uint64) *body { return c.holderIn(c.fn, vaddr) }

func (c *code) holderIn(fn *functions, vaddr uint64) *body {
	i := sort.Search(len(fn.starts), func(i int) bool { return fn.starts[i] > vaddr })
	for _, sized := range [...]bool{true, false} {
		for n := i - 1; n >= 0 && n >= i-maxHolders && vaddr-fn.starts[n] <= maxFunction; n-- {
			d := fn.at(fn.starts[n])
			if (d.End != 0) != sized || !d.Holds(vaddr) {
				continue
			}
			if b := c.bodyOf(d); b.lens[vaddr] != 0 {
				return b
			}
			if sized {
				break // an outer function's paths do not run through an inner one's
			}
		}
	}
	return nil
}

// maxHolders is how many function starts before a site are tried.
const maxHolders = 8
