// Reading instructions out of a file: a bounded cache of what its segments hold.

package find

import (
	"slices"

	"vfix.dev/vfix/rewriter/elf"
	"vfix.dev/vfix/rewriter/x86"
)

const (
	// codeBlock is how many bytes are read at once, and codeBlocks how many such blocks
	// are kept.
	codeBlock  = 16 << 10
	codeBlocks = 64
	// maxFunction is how far before a site a function that holds it may begin, in bytes.
	maxFunction = 64 << 10
)

// code reads and decodes the instructions of a file.
type code struct {
	f      *File
	fn     *functions // those near the sites
	refs   *refs      // to what is near the sites
	blocks map[uint64][]byte
	bodies map[uint64]*body
	// Answers that are needed again and again: the landing pads of functions, which functions may return, the
	// words that relocations fill with addresses in code or with those of functions that do not
	// return; the last two are nil until asked for.
	landing   map[uint64]landingPads
	returning map[uint64]bool
	skipping  map[uint64]bool
	relative  []relative // sorted; see pointer
	imports   map[uint64]string
	// kept are the uses that callees make of registers that they must preserve; keptLeft is how many more
	// instructions are looked at for them.
	kept     map[keptUse]x86.Instr
	keptLeft int
	// steps is how many more instructions may be decoded in this file.
	steps int
	// entries is how many more entries of tables may be looked at.
	entries int
}

// maxSteps bounds the work on one file, in instructions decoded: less than a second. Of 1,000
// real files most need some 5,000; stripped ones and static ones whose programs call time() in many
// places up to 131,000.
const maxSteps = 1 << 20

// maxEntries bounds the entries of jump tables that are looked at in one file, where any address that a program names
// may be a table's. Most are not, and end the look at the first.
const maxEntries = 1 << 23

// entry reports whether one more entry of a table may be looked at; if not, nothing found about the file counts.
func (c *code) entry() bool {
	if c.entries--; c.entries < 0 {
		c.steps = 0
	}
	return c.entries >= 0
}

func newCode(f *File) *code {
	return &code{f: f, fn: &functions{}, refs: &refs{}, blocks: make(map[uint64][]byte), bodies: make(map[uint64]*body),
		landing: make(map[uint64]landingPads), returning: make(map[uint64]bool), skipping: make(map[uint64]bool), steps: maxSteps, entries: maxEntries,
		kept: make(map[keptUse]x86.Instr), keptLeft: maxKept}
}

// use takes fn for the functions near the sites.
func (c *code) use(fn *functions) {
	c.fn = fn
	clear(c.bodies)
	clear(c.landing)
}

// mem returns the bytes at vaddr up to the length of an instruction, or more; fewer where the
// segment ends, none outside of one.
func (c *code) mem(vaddr uint64) []byte { return c.in(c.f.Load(vaddr), vaddr) }

// bytes is mem in executable segments.
func (c *code) bytes(vaddr uint64) []byte {
	p := c.f.Load(vaddr)
	if p == nil || p.Flags&elf.PFX == 0 {
		return nil
	}
	return c.in(p, vaddr)
}

func (c *code) in(p *elf.Prog, vaddr uint64) []byte {
	if p == nil {
		return nil
	}
	key := vaddr &^ (codeBlock - 1)
	base := max(key, p.Vaddr)
	b, ok := c.blocks[base]
	if !ok {
		end := min(key+codeBlock+x86.MaxLen, p.Vaddr+p.Filesz)
		var err error
		if b, err = c.f.Bytes(p.Off+(base-p.Vaddr), end-base); err != nil {
			return nil // Scan reports it
		}
		if len(c.blocks) >= codeBlocks {
			clear(c.blocks)
		}
		c.blocks[base] = b
	}
	return b[min(vaddr-base, uint64(len(b))):]
}

// at decodes the instruction at vaddr.
func (c *code) at(vaddr uint64) (x86.Instr, bool) {
	b := c.bytes(vaddr)
	if len(b) == 0 || c.exhausted() {
		return x86.Instr{}, false
	}
	c.steps--
	return x86.Decode(b, vaddr)
}

// exhausted reports whether so much was decoded that nothing found about the file counts.
func (c *code) exhausted() bool { return c.steps <= 0 }

// has reports whether the bytes at vaddr are want.
func (c *code) has(vaddr uint64, want ...byte) bool {
	b := c.bytes(vaddr)
	return len(b) >= len(want) && string(b[:len(want)]) == string(want)
}

// vaddrs is a set of addresses, sorted once normalize was called.
type vaddrs []uint64

// upTo returns how many are not above vaddr.
func (s vaddrs) upTo(vaddr uint64) int {
	n, _ := slices.BinarySearch(s, vaddr+1)
	return n
}

// enclosing returns the last one at or before vaddr.
func (s vaddrs) enclosing(vaddr uint64) (uint64, bool) {
	n := s.upTo(vaddr)
	if n == 0 {
		return 0, false
	}
	return s[n-1], true
}

// has reports whether vaddr is one of them.
func (s vaddrs) has(vaddr uint64) bool { return s.within(vaddr, vaddr+1) }

// within reports whether one of them is in [lo, hi).
func (s vaddrs) within(lo, hi uint64) bool { return len(s.between(lo, hi)) > 0 }

// between returns those in [lo, hi).
func (s vaddrs) between(lo, hi uint64) vaddrs {
	from, _ := slices.BinarySearch(s, lo)
	end, _ := slices.BinarySearch(s, hi)
	return s[from:max(from, end)]
}

// normalize sorts the set.
func (s *vaddrs) normalize() {
	slices.Sort(*s)
	*s = slices.Compact(*s)
}
