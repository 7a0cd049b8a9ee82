// The conditions for the forms of a patch: a function that is only a call of the page, bytes that nothing enters.

package find

import (
	"slices"

	"vfix.dev/vfix/rewriter/x86"
)

// The two instructions that keep the stack aligned in a stub, and ret.
var (
	subRsp8 = []byte{0x48, 0x83, 0xec, 0x08}
	addRsp8 = []byte{0x48, 0x83, 0xc4, 0x08}
)

const (
	opRet = 0xc3
	// jumpLen is the length in bytes of jmp rel32.
	jumpLen = 5
)

// alone reports whether s and its call may be overwritten together: the value reaches only that call, and nothing
// enters between.
func (c *code) alone(b *body, s *Site) bool {
	stray := func(at uint64) bool { return at != s.Call }
	return s.Verdict == Live && s.Loads() && s.Adjacent() && s.Calls == 1 && b.damaged == "" &&
		!slices.ContainsFunc(b.jumps, stray) && !c.refs.inside(s.Vaddr+1, s.Call+uint64(s.CallLen))
}

// stub returns the extent of the function around s if it is only a call of the page through rax, and nothing
// enters the bytes that a jump over its start changes; else Len is 0.
func (c *code) stub(b *body, s *Site) Extent {
	if !s.Loads() || !s.Adjacent() || s.Reg != x86.Rax {
		return Extent{}
	}
	start, end, n := s.Vaddr, s.Call+uint64(s.CallLen), 2
	switch {
	case s.Tail:
	case c.has(start-4, subRsp8...) && c.has(end, append(slices.Clone(addRsp8), opRet)...):
		start, end, n = start-4, end+5, 5
	default:
		end, n = end+1, 3
		if !c.has(end-1, opRet) {
			return Extent{}
		}
	}
	if b.Start != start || len(b.lens) != n || c.refs.inside(start+1, start+jumpLen) {
		return Extent{}
	}
	return Extent{start, end - start}
}

// syscallLen is the length in bytes of a function that makes a system call and changes only rax.
const syscallLen = 14

// bySyscall reports whether a system call may replace s and its call, or the whole stub around it: rcx and r11,
// which it changes, are not read, or are saved there.
func (c *code) bySyscall(b *body, s *Site) bool {
	if s.Stub.Len >= syscallLen {
		return !c.refs.inside(s.Stub.Vaddr+1, s.Stub.End())
	}
	return s.Alone && !s.Tail && c.dead(s.Call+uint64(s.CallLen), x86.RegsOf(x86.Rcx, x86.R11), b)
}
