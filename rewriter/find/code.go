// Reads instructions from a file.

package find

import (
	"slices"

	"vfix.dev/vfix/rewriter/elf"
	"vfix.dev/vfix/rewriter/x86"
)

const (
	// codeBlock is the size of the block that is kept, in bytes.
	codeBlock = 64 << 10
	// maxFunction is how far before a site its function may begin, in bytes.
	maxFunction = 64 << 10
)

// code reads and decodes the instructions of a file.
type code struct {
	f     *File
	base  uint64
	block []byte
}

// bytes returns the bytes at vaddr in an executable segment, at least as many as the longest instruction has, fewer
// at its end.
func (c *code) bytes(vaddr uint64) []byte {
	if vaddr < c.base || vaddr+x86.MaxLen > c.base+uint64(len(c.block)) {
		p := c.f.Load(vaddr)
		if p == nil || p.Flags&elf.PFX == 0 {
			return nil
		}
		c.base = max(vaddr&^(codeBlock-1), p.Vaddr)
		c.block = c.f.Mem(c.base, 2*codeBlock)
	}
	return c.block[min(vaddr-c.base, uint64(len(c.block))):]
}

// at decodes the instruction at vaddr.
func (c *code) at(vaddr uint64) (x86.Instr, bool) {
	b := c.bytes(vaddr)
	if len(b) == 0 {
		return x86.Instr{}, false
	}
	return x86.Decode(b, vaddr)
}

// has reports whether the bytes at vaddr are want.
func (c *code) has(vaddr uint64, want ...byte) bool {
	b := c.bytes(vaddr)
	return len(b) >= len(want) && string(b[:len(want)]) == string(want)
}

// vaddrs is a set of addresses, which normalize sorts.
type vaddrs []uint64

// enclosing returns the last address at or before vaddr.
func (s vaddrs) enclosing(vaddr uint64) (uint64, bool) {
	n, _ := slices.BinarySearch(s, vaddr+1)
	if n == 0 {
		return 0, false
	}
	return s[n-1], true
}

// within reports whether an address of the set is in [lo, hi).
func (s vaddrs) within(lo, hi uint64) bool {
	at, ok := s.enclosing(hi - 1)
	return ok && at >= lo
}

func (s vaddrs) has(vaddr uint64) bool { return s.within(vaddr, vaddr+1) }

func (s *vaddrs) normalize() {
	slices.Sort(*s)
	*s = slices.Compact(*s)
}
