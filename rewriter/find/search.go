// The search for references: every encoding ends with, or is, one of the three addresses, whose third and fourth
// byte are the rare pair 60 ff. The search looks only for that pair; the bytes around a hit then identify it.

package find

import (
	"encoding/binary"
	"maps"
	"slices"

	"golang.org/x/arch/x86/x86asm"

	"vfix.dev/vfix/rewriter/elf"
	"vfix.dev/vfix/rewriter/x86"
)

// maxSites is the maximum number of references in one file. The most in a known file is 6.
const maxSites = 4096

// maxCandidates is the maximum number of instructions, and of words, in one file that may be half an address. The most in a
// known file is 1,000.
const maxCandidates = 1 << 15

// pagePair is 60 ff. The other two pairs are in the negative of an address, and in its complement: compilers
// subtract 0xa00000 to add the page's address.
const (
	pagePair     = 0xff60
	negativePage = 0x00a0
	negativeSlot = 0x009f
)

var pairs = [...]uint16{pagePair, negativePage, negativeSlot}

// search collects the references of one file as sites without a verdict.
type search struct {
	f     *File
	code  *code
	in    *elf.Prog // the segment that is searched
	sites []Site
	// halves are the sites that may be a part of an address.
	halves []Site
	words  map[uint64]word // the data among them, and variables with such a constant
	// pointed is the number of words to which pointers were searched for.
	pointed int
}

// full reports whether there are too many references, or constants that may be, so that the file is not examined.
func (s *search) full() bool {
	return len(s.sites) >= maxSites || len(s.halves) >= maxCandidates || len(s.words) >= maxCandidates
}

// run searches all PT_LOADs: data first, so that the code is searched at once for loads of words in data that may be
// half an address.
func (s *search) run() {
	var words []uint64 // for whose loads the code is searched now
	known := map[uint64]bool{}
	each := func(code bool, look func(b []byte, vaddr uint64, lo, hi int)) {
		s.pointers()
		words = slices.DeleteFunc(slices.Sorted(maps.Keys(s.words)), func(at uint64) bool { return known[at] })
		for _, at := range words {
			known[at] = true
		}
		for i := range s.f.Progs {
			p := &s.f.Progs[i]
			if p.Type != elf.PTLoad || p.Filesz == 0 || code != (p.Flags&elf.PFX != 0) {
				continue
			}
			if s.in = p; code {
				p = s.pages(p)
			}
			s.f.Chunks(p, look)
		}
	}
	loads := func(b []byte, vaddr uint64, lo, hi int) { s.loads(b, vaddr, lo, hi, words) }
	each(false, s.inData)
	each(true, func(b []byte, vaddr uint64, lo, hi int) {
		s.inCode(b, vaddr, lo, hi)
		loads(b, vaddr, lo, hi)
	})
	if s.seams(); len(s.words) > len(known) { // words in code
		each(true, loads)
	}
}

// seams searches for instructions that begin in one executable segment and end in the next one, which may be from
// another place in the file. They remain unknown, as no segment has all of their bytes.
func (s *search) seams() {
	const n = x86.MaxLen - 1
	for i := range s.f.Progs {
		p := &s.f.Progs[i]
		end := elf.PageUp(p.Vaddr + p.Filesz)
		q, off := s.f.Load(end), p.Off+(end-n-p.Vaddr)
		if p.Type != elf.PTLoad || p.Flags&elf.PFX == 0 || q == nil || q.Flags&elf.PFX == 0 || !s.f.InFile(off, n) {
			continue
		}
		b, behind := s.f.Bytes(off, n), s.f.Mem(end, n)
		s.in = p
		known := len(s.sites)
		s.inCode(append(b, behind...), end-n, 0, n+len(behind))
		crossing := slices.DeleteFunc(s.sites[known:], func(a Site) bool { return a.Vaddr >= end || a.Vaddr+uint64(a.Len) <= end })
		s.sites = s.sites[:known+len(crossing)]
	}
}

// pages returns an executable segment with the mapped bytes before and behind its content: a kernel maps whole
// pages, and an instruction may continue in the next segment.
func (s *search) pages(p *elf.Prog) *elf.Prog {
	whole, end := *p, elf.PageUp(p.Off+p.Filesz)
	if end == p.Off+p.Filesz {
		end += x86.MaxLen
	}
	if head := p.Off % elf.PageSize; p.Vaddr%elf.PageSize == head { // kernels map no other segments
		whole.Off, whole.Vaddr = p.Off-head, p.Vaddr-head
	}
	whole.Filesz = min(end, s.f.Size) - whole.Off
	return &whole
}

func (s *search) inData(b []byte, vaddr uint64, lo, hi int) {
	for i := range elf.Pairs(b, lo, hi, []uint16{pagePair}) {
		s.hit(b, vaddr, i, false)
	}
}

// inCode searches for the page's address and, in programs at fixed addresses, for call, jmp and jcc rel32 into the
// page and for lea of it relative to rip.
func (s *search) inCode(b []byte, vaddr uint64, lo, hi int) {
	var to []span
	if s.f.Type == elf.TypeExec {
		to = []span{{Functions[0].Vaddr(), Functions[len(Functions)-1].Vaddr()}}
	}
	const branch = 3 // bytes from the opcode of a branch to the upper half of its displacement
	eachUpper(b, vaddr, lo, hi, pairs[:], to, func(i int) {
		switch binary.LittleEndian.Uint16(b[i:]) {
		case pagePair:
			s.hit(b, vaddr, i, true)
		case negativePage, negativeSlot:
			if f, ok := negated(b, i); ok {
				s.partial(b, vaddr, i-2, f)
			}
		}
		if to != nil && i >= branch {
			s.relative(b, vaddr, i-branch)
		}
	})
}

// span is a range of addresses, including the last.
type span struct{ first, last uint64 }

// eachUpper visits the indices in b[lo:hi], which is code, of the pairs, and of bytes that may be the upper half
// of a displacement to one of the spans. Within a block of code, the upper half of the displacement to an address
// is one of two.
func eachUpper(b []byte, vaddr uint64, lo, hi int, pairs []uint16, to []span, visit func(i int)) {
	block := hi - lo
	if len(to) > 0 {
		block = 1 << 15
	}
	for at := lo; at < hi; at += block {
		end := min(at+block, hi)
		all := pairs[:len(pairs):len(pairs)]
		for _, t := range to { // the instruction ends behind the upper half
			all = appendUpper(all, t, vaddr+uint64(at)+2, vaddr+uint64(end)+2)
		}
		for i := range elf.Pairs(b, at, end, all) {
			visit(i)
		}
	}
}

// appendUpper appends the possible upper halves of 32-bit displacements from instructions that end from lo to hi
// to the span, without duplicates.
func appendUpper(pairs []uint16, to span, lo, hi uint64) []uint16 {
	from, end := uint16(uint32(to.first-hi)>>16), uint16(uint32(to.last-lo)>>16)
	for u := from; ; u++ {
		if !slices.Contains(pairs, u) {
			pairs = append(pairs, u)
		}
		if u == end {
			return pairs
		}
	}
}

// hit examines the pair at b[i], which may be in code if exec is set.
func (s *search) hit(b []byte, vaddr uint64, i int, exec bool) {
	if s.full() || !lowerHalf(b, i) {
		return
	}
	imm := i - 2
	f, ok := FunctionAt(elf.Signed(b[imm:]))
	if !ok || exec && s.reference(b, vaddr, imm, f) {
		return
	}
	op, constant := referenceAt(b, imm)
	if exec {
		constant = s.partial(b, vaddr, imm, f) || constant
	} else if constant && op.Kind != MovImm64 && op.Kind != CmpImm32 && (op.Kind != PushImm32 || len(b) > imm+4 && b[imm+4] == opRet) {
		s.reference(b, vaddr, imm, f) // machine code in data
	}
	s.word(b, vaddr, imm, f, constant)
}

// lowerHalf reports whether the pair at b[i] may end the lower half of one of the three addresses.
func lowerHalf(b []byte, i int) bool { return i >= 2 && b[i-2] == 0 && b[i-1]&^0x0c == 0 }

// word treats the four bytes at b[imm], perhaps the constant of an instruction, as data: an address, aligned or not,
// or the lower half of one. Two bytes before an aligned number, the page's own address may be half of -160, if that is
// a number of 8 bytes or another negative number follows. An unwind table has the distances of functions from itself:
// that of one 40 KiB before it has three bytes of half an address.
func (s *search) word(b []byte, vaddr uint64, imm int, f Function, constant bool) {
	switch at := vaddr + uint64(imm); {
	case at%4 == 2 && f == Gettimeofday && (!isWord(b, imm) || len(b) >= imm+10 && binary.LittleEndian.Uint16(b[imm+8:]) == 0xffff):
	case isWord(b, imm):
		s.add(Site{Vaddr: at, Len: 8, Kind: DataWord, Function: f})
	case at%4 == 3 && len(b) > imm+4 && b[imm+4] == 0xff && s.f.InUnwindTable(at):
	default:
		s.keep(at, word{f, half, constant})
	}
}

// negated returns the function whose address, or half of it, the instruction around the pair at b[i] subtracts,
// complements by xor, or loads negated or complemented.
func negated(b []byte, i int) (Function, bool) {
	if i < 2 || i+2 > len(b) {
		return 0, false
	}
	imm := i - 2
	n := int32(binary.LittleEndian.Uint32(b[imm:]))
	f, ok := FunctionAt(uint64(int64(-n)))
	if !ok {
		f, ok = FunctionAt(uint64(int64(^n)))
	}
	return f, ok && (imm >= 1 && (b[imm-1] == 0x2d || b[imm-1] == 0x35 || b[imm-1]&0xf8 == 0xb8) ||
		imm >= 2 && b[imm-2] == 0xc7 && b[imm-1]&0xf8 == 0xc0 || slices.ContainsFunc(modrmBefore[:], func(n int) bool {
		return imm >= n && b[imm-n] == 0x81 && (b[imm-n+1]>>3&7 == 5 || b[imm-n+1]>>3&7 == 6)
	}))
}

// modrmBefore are the possible distances from the opcode to the immediate: ModRM, perhaps SIB, and a displacement
// of 0, 1 or 4 bytes are between them.
var modrmBefore = [...]int{2, 3, 4, 6, 7}

// isWord reports whether the address whose lower half is at b[imm] also has its upper half.
func isWord(b []byte, imm int) bool {
	return len(b) >= imm+8 && binary.LittleEndian.Uint32(b[imm+4:]) == 0xffffffff
}

// reference recognizes the instruction with the immediate at b[imm]; it reports whether the hit is an instruction,
// kept or not. Opcodes of one or two bytes may also be a displacement.
func (s *search) reference(b []byte, vaddr uint64, imm int, f Function) bool {
	site, ok := referenceAt(b, imm)
	if !ok {
		return false
	}
	site.Function = f
	site.Vaddr = vaddr + uint64(imm) - site.Vaddr // it was the distance to the immediate
	s.add(site)
	return site.Kind != PushImm32 && site.Kind != CmpImm32
}

// referenceAt recognizes a mov of the immediate at b[imm], a lea, a push and a comparison. The Vaddr of the site
// is the distance from its first byte to the immediate.
func referenceAt(b []byte, imm int) (Site, bool) {
	if imm >= 3 {
		rex, op, modrm := b[imm-3], b[imm-2], b[imm-1]
		if rex&0xf8 == 0x48 && op == 0xc7 && modrm&0xf8 == 0xc0 {
			return Site{Vaddr: 3, Len: 7, Kind: MovImm32, Reg: modrm&7 | rex&1<<3}, true
		}
	}
	// lea 0xffffffffff600400,%reg: ModRM with a SIB byte without registers; with REX.X its index is r12.
	if imm >= 4 && b[imm-4]&0xfa == 0x48 && b[imm-3] == 0x8d && b[imm-2]&0xc7 == 0x04 && b[imm-1]&0x3f == 0x25 {
		return Site{Vaddr: 4, Len: 8, Kind: LeaDisp32, Reg: b[imm-2]>>3&7 | b[imm-4]&4<<1}, true
	}
	if imm >= 2 && isWord(b, imm) {
		rex, op := b[imm-2], b[imm-1]
		if rex&0xf8 == 0x48 && op&0xf8 == 0xb8 {
			return Site{Vaddr: 2, Len: 10, Kind: MovImm64, Reg: op&7 | rex&1<<3}, true
		}
	}
	if imm >= 2 && b[imm-2]&0xf8 == 0x48 && b[imm-1] == 0x3d {
		return Site{Vaddr: 2, Len: 6, Kind: CmpImm32}, true
	}
	for _, n := range modrmBefore {
		n++ // REX.W
		if imm < n || b[imm-n]&0xf8 != 0x48 {
			continue
		}
		op, want, kind := b[imm-n+1], x86asm.MOV, StoreImm32
		switch op {
		case 0x81:
			want, kind = x86asm.CMP, CmpImm32
		case 0xc7:
		default:
			continue
		}
		i, _ := x86.Decode(b[imm-n:], 0)
		if i.Op == want && i.Len == n+4 {
			return Site{Vaddr: uint64(n), Len: uint8(n + 4), Kind: kind}, true
		}
	}
	if imm >= 1 && b[imm-1] == 0x68 {
		return Site{Vaddr: 1, Len: 5, Kind: PushImm32}, true
	}
	return Site{}, false
}

// add adds a site of the segment that is searched, unless it belongs to another segment.
func (s *search) add(site Site) {
	into := site.Vaddr - s.in.Vaddr
	site.Offset = s.in.Off + into
	switch {
	case s.full():
	case s.in.Flags&elf.PFX == 0 && site.Kind != DataWord && s.f.CodeAt(site.Offset+1) != nil: // searched with that segment
	case into >= s.in.Filesz && (!site.Loads() || s.f.Mappings(site.Offset) > 0): // data beside the segment, or in another
	default:
		s.sites = append(s.sites, site)
	}
}

// relative examines the opcode b[op] of a possible branch into the page, or b[op] as the ModRM byte of a lea.
func (s *search) relative(b []byte, vaddr uint64, op int) {
	i := op + 1
	jcc := op > 0 && b[op-1] == 0x0f && b[op]&0xf0 == 0x80
	lea := op > 1 && b[op-2]&0xf8 == 0x48 && b[op-1] == 0x8d && b[op]&0xc7 == 5 // off rip
	if s.full() || i+4 > len(b) || b[op] != 0xe8 && b[op] != 0xe9 && !jcc && !lea {
		return
	}
	v := vaddr + uint64(op)
	f, ok := FunctionAt(v + 5 + elf.Signed(b[i:]))
	switch {
	case !ok:
	case lea:
		s.add(Site{Vaddr: v - 2, Len: 7, Kind: LeaDisp32, Reg: b[op]>>3&7 | b[op-2]&4<<1, Function: f})
	case jcc:
		s.add(Site{Vaddr: v - 1, Len: 6, Kind: JccRel32, Function: f})
	default:
		s.add(Site{Vaddr: v, Len: 5, Kind: CallRel32, Function: f})
	}
}
