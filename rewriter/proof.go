// What must be known before bytes of a file are changed: that an instruction begins there, and
// for forms that change more than one, that nothing goes to the second.

package rewriter

import (
	"slices"
	"sort"
)

// prover answers for the sites of one file.
type prover struct {
	*code
	fn      *functions
	t       *targets
	conv    convention
	allowed map[uint64]bool // tail jumps through a register that only ever holds the page's address
	visited map[uint64]bool
}

// holder returns the code of the function that reaches vaddr, nil where none is known to: of
// the functions that begin before it the nearest, and of those the ones whose end is known
// first.
func (c *code) holder(fn *functions, vaddr uint64) *body {
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

// open says why something may land inside the bytes [lo, hi) of b but for the first, "" where
// nothing does.
func (p *prover) open(b *body, lo, hi uint64) string {
	for at := lo; at < hi; {
		n := uint64(b.lens[at])
		if n == 0 || !b.begins(at, n) {
			return "not all of it is known to be code"
		}
		at += n
	}
	if p.t.inside(lo+1, hi) {
		return "the call is reached from elsewhere too"
	}
	if p.t.blind {
		return "more tables of offsets than can be read may lead into it"
	}
	p.visited = map[uint64]bool{}
	return p.reachable(b)
}

// maxParts bounds the parts of one function that are looked at.
const maxParts = 32

// reachable says what may enter the middle of b unseen: an indirect jump in it, or in a part
// of the same function that jumps to it or that it jumps to.
func (p *prover) reachable(b *body) string {
	if p.visited[b.Start] {
		return ""
	}
	p.visited[b.Start] = true
	switch {
	case len(p.visited) > maxParts:
		return "its function has too many parts"
	case b.End == 0:
		return "nothing says where its function ends"
	case b.damaged != "":
		return "its function is not understood: " + b.damaged
	}
	for _, at := range b.jumps {
		if !p.allowed[at] {
			return "an indirect jump in its function may go anywhere in it"
		}
	}
	for _, to := range b.away {
		if p.enters(to) {
			continue
		}
		part := p.holder(p.fn, to)
		if part == nil {
			return "its function continues outside any known function"
		}
		if why := p.reachable(part); why != "" {
			return why
		}
	}
	known := p.enters(b.Start)
	for _, j := range p.t.jumps {
		if j.to < b.Start || j.to >= b.End || b.Holds(j.from) || j.to == b.Start && p.enters(j.to) || !p.holds(j.from) {
			continue
		}
		if j.to != b.Start && b.lens[j.to] == 0 && b.runsOver(j.to) {
			continue // bytes that only look like a jump: it would land inside an instruction
		}
		from := p.jumper(j.from)
		if from == nil {
			return "something that is no known function jumps into its function"
		}
		if from.lens[j.from] == 0 {
			continue // not an instruction
		}
		known = true
		if why := p.reachable(from); why != "" {
			return why
		}
	}
	if !known {
		return "nothing is known to enter its function"
	}
	return ""
}

// jumper returns the function that the bytes at vaddr lie in.
func (p *prover) jumper(vaddr uint64) *body {
	if b := p.holder(p.fn, vaddr); b != nil {
		return b
	}
	i := sort.Search(len(p.fn.starts), func(i int) bool { return p.fn.starts[i] > vaddr })
	for n := i - 1; n >= 0 && n >= i-maxHolders; n-- {
		if d := p.fn.at(p.fn.starts[n]); d.End != 0 && d.Holds(vaddr) {
			if b := p.bodyOf(d); b.damaged == "" && b.runsOver(vaddr) {
				return b
			}
		}
	}
	return nil
}

// enters reports whether vaddr is known to be where a function begins, and not a part of one.
func (p *prover) enters(vaddr uint64) bool {
	return p.fn.entered[vaddr] || len(p.t.called[vaddr]) > 0
}

// entersMiddle reports whether code that is known as such calls or jumps to the middle of the n
// bytes at vaddr: they are more than one instruction. Words of data are no proof of that.
func (p *prover) entersMiddle(vaddr, n uint64) bool {
	for at := vaddr + 1; at < vaddr+n; at++ {
		if p.calledFrom(p.t.called[at]) {
			return true
		}
	}
	return slices.ContainsFunc(p.t.jumps, func(j jump) bool {
		return j.to > vaddr && j.to < vaddr+n && p.calledFrom([]uint64{j.from})
	})
}
