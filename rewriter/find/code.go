// Reads instructions from a file, through a bounded cache of its segments.

package find

import (
	"slices"

	"vfix.dev/vfix/rewriter/elf"
	"vfix.dev/vfix/rewriter/x86"
)

const (
	// codeBlock is the size of a block that is read at once, in bytes, and codeBlocks the number of blocks in the
	// cache.
	codeBlock  = 16 << 10
	codeBlocks = 64
	// maxFunction is how far before a site its function may begin, in bytes.
	maxFunction = 64 << 10
)

// code reads and decodes the instructions of a file.
type code struct {
	f      *File
	fn     *functions // those near the sites
	refs   *refs      // to addresses near the sites
	blocks map[uint64][]byte
	bodies map[uint64]*body
	// Cached results: the landing pads of functions, which functions may return, the words that relocations fill
	// with addresses in code or with those of functions that do not return; the last two are nil until they are
	// needed.
	landing   map[uint64]landingPads
	returning map[uint64]bool
	skipping  map[uint64]bool
	relative  []relative // sorted; see pointer
	imports   map[uint64]string
	// kept are the uses that callees make of registers that they must preserve; keptLeft is the number of
	// instructions left for this question.
	kept     map[keptUse]x86.Instr
	keptLeft int
	*work
}

// work is what may still be done: instructions that are decoded, and entries of tables that are read.
type work struct{ steps, entries int }

// exhausted reports whether it is used up, so that no result counts.
func (w *work) exhausted() bool { return w.steps <= 0 || w.entries < 0 }

// budget is the work for one file, or for all objects of an archive together: for its sites, and for constants that may
// be half an address, which also occur in data.
type budget struct{ sites, halves work }

func newBudget() *budget {
	most := work{maxSteps, maxEntries}
	return &budget{most, most}
}

// maxSteps is the maximum number of instructions decoded in one file, less than a second of work. Of 1,000 real
// files most need about 5,000; stripped ones, and static ones whose programs call time() in many places, up to
// 131,000.
const maxSteps = 1 << 20

// maxEntries is the maximum number of entries of jump tables that are read in one file, about a second of work;
// those of the functions with sites count as slowEntry, as each is looked up in what is known of the function. Any
// address in a program may be a table's; most are not, and fail at the first entry. Of real files with up to 30 MB
// of code most need about 2 million, and one 8 million.
const (
	maxEntries = 1 << 26
	slowEntry  = 8
)

// entry reports whether an entry of a table that counts as n may be read.
func (w *work) entry(n int) bool {
	w.entries -= n
	return w.entries >= 0
}

func newCode(f *File, w *work) *code {
	return &code{f: f, fn: &functions{}, refs: &refs{}, blocks: make(map[uint64][]byte), bodies: make(map[uint64]*body),
		landing: make(map[uint64]landingPads), returning: make(map[uint64]bool), skipping: make(map[uint64]bool), work: w,
		kept: make(map[keptUse]x86.Instr), keptLeft: maxKept}
}

// use sets the functions near the sites.
func (c *code) use(fn *functions) {
	c.fn = fn
	clear(c.bodies)
	clear(c.landing)
}

// mem returns the bytes at vaddr, at least as many as the longest instruction has, fewer at the end of the
// segment, none outside of one.
func (c *code) mem(vaddr uint64) []byte { return c.in(c.f.Load(vaddr), vaddr) }

// bytes is mem for executable segments.
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
		b = c.f.Bytes(p.Off+(base-p.Vaddr), end-base)
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

// has reports whether the bytes at vaddr are want.
func (c *code) has(vaddr uint64, want ...byte) bool {
	b := c.bytes(vaddr)
	return len(b) >= len(want) && string(b[:len(want)]) == string(want)
}

// vaddrs is a set of addresses, which normalize sorts.
type vaddrs []uint64

// upTo returns the number of addresses up to and including vaddr.
func (s vaddrs) upTo(vaddr uint64) int {
	n, _ := slices.BinarySearch(s, vaddr+1)
	return n
}

// enclosing returns the last address at or before vaddr.
func (s vaddrs) enclosing(vaddr uint64) (uint64, bool) {
	n := s.upTo(vaddr)
	if n == 0 {
		return 0, false
	}
	return s[n-1], true
}

// has reports whether vaddr is in the set.
func (s vaddrs) has(vaddr uint64) bool { return s.within(vaddr, vaddr+1) }

// within reports whether an address of the set is in [lo, hi).
func (s vaddrs) within(lo, hi uint64) bool { return len(s.between(lo, hi)) > 0 }

// between returns the addresses in [lo, hi).
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
