// The search for references: every encoding ends with, or is, one of the three addresses,
// whose third and fourth byte are the rare pair 60 ff. Only that pair is looked for; the
// bytes around a hit then show what it is.

package find

import (
	"encoding/binary"
	"errors"
	"maps"
	"math"
	"slices"

	"golang.org/x/arch/x86/x86asm"

	"vfix.dev/vfix/rewriter/elf"
	"vfix.dev/vfix/rewriter/x86"
)

// maxSites bounds the references of one file. The most seen in a real one is 6.
const maxSites = 4096

// pagePair is 60 ff. The other two are in the address with its sign changed, and in its complement: compilers
// subtract 0xa00000 to add the page's address.
const (
	pagePair     = 0xff60
	negativePage = 0x00a0
	negativeSlot = 0x009f
)

// search collects the references of one file as sites that have no verdict yet.
type search struct {
	f     *File
	code  *code
	in    *elf.Prog // the segment that is searched
	known uint64    // how many bytes of it have been searched
	head  uint64    // those in front of it, if only these are searched
	sites []Site
	// halves are those that may be a part of an address.
	halves []Site
	words  map[uint64]Function // the data among them, and variables that such a constant is stored in
	loaded []uint64            // those of the words whose loads are looked for when code is
	// bytes is how many bytes of executable segments were searched.
	bytes uint64
}

func (s *search) full() bool { return len(s.sites) >= maxSites }

// run searches all PT_LOADs, data first: what code may load of it is known when code is searched.
func (s *search) run() error {
	err := s.f.EachChunk(0, elf.PFX, func(p *elf.Prog, b []byte, vaddr uint64, lo, hi int) {
		s.in = p
		for i := range elf.Pairs(b, lo, hi, []uint16{pagePair}) {
			s.hit(b, vaddr, i, false)
		}
	})
	if err != nil {
		return err
	}
	s.loaded = slices.Sorted(maps.Keys(s.words))
	err = s.f.EachChunk(elf.PFX, 0, func(p *elf.Prog, b []byte, vaddr uint64, lo, hi int) {
		s.in = p
		s.bytes += uint64(hi - lo)
		s.codeHits(b, vaddr, lo, hi, s.loaded, true)
	})
	for i := range s.f.Progs {
		if p := &s.f.Progs[i]; err == nil && p.Type == elf.PTLoad && p.Filesz > 0 && p.Flags&elf.PFX != 0 {
			err = errors.Join(s.behind(p), s.before(p))
		}
	}
	return err
}

// behind searches what can be executed behind the end of a segment.
func (s *search) behind(p *elf.Prog) error {
	from := p.Filesz - min(p.Filesz, elf.ChunkMargin)
	b, err := s.f.Bytes(p.Off+from, s.mapped(p)-from)
	if err == nil {
		s.in, s.known = p, p.Filesz
		s.codeHits(b, p.Vaddr+from, 0, len(b), s.loaded, true)
	}
	return err
}

// before searches what can be executed in front of a segment: its first page begins there.
func (s *search) before(p *elf.Prog) error {
	head := p.Off % elf.PageSize
	if head == 0 || p.Vaddr%elf.PageSize != head { // no kernel maps the latter
		return nil
	}
	whole := *p
	whole.Off, whole.Vaddr, whole.Filesz = p.Off-head, p.Vaddr-head, p.Filesz+head
	b, err := s.f.Bytes(whole.Off, min(head+elf.ChunkMargin, s.mapped(&whole)))
	if err == nil {
		s.in, s.known, s.head = &whole, 0, head
		s.codeHits(b, whole.Vaddr, 0, len(b), s.loaded, true)
		s.head = 0
	}
	return err
}

// hit looks at the pair at b[i], which may be in code where exec is set.
func (s *search) hit(b []byte, vaddr uint64, i int, exec bool) {
	if s.full() || !lowerHalf(b, i) {
		return
	}
	imm := i - 2
	f, ok := FunctionAt(uint64(int64(int32(binary.LittleEndian.Uint32(b[imm:])))))
	if !ok || exec && s.reference(b, vaddr, imm, f) {
		return
	}
	if exec {
		s.partial(b, vaddr, imm, f)
	} else if op, ok := referenceAt(b, imm); ok && op.Kind != MovImm64 && op.Kind != CmpImm32 && (op.Kind != PushImm32 || len(b) > imm+4 && b[imm+4] == opRet) {
		s.reference(b, vaddr, imm, f) // machine code in data
	}
	s.word(b, vaddr, imm, f)
}

// lowerHalf reports whether the pair at b[i] may end the lower half of one of the three addresses.
func lowerHalf(b []byte, i int) bool { return i >= 2 && b[i-2] == 0 && b[i-1]&^0x0c == 0 }

// word takes the four bytes at b[imm] for data: an address, aligned or not, or the lower half of one.
// Two bytes before an aligned number, the page's own address is half of -160, if that is a number of 8 bytes or
// another negative one is behind it.
func (s *search) word(b []byte, vaddr uint64, imm int, f Function) {
	switch at := vaddr + uint64(imm); {
	case at%4 == 2 && f == Gettimeofday && (!isWord(b, imm) || len(b) >= imm+10 && binary.LittleEndian.Uint16(b[imm+8:]) == 0xffff):
	case isWord(b, imm):
		s.add(Site{Vaddr: at, Len: 8, Kind: DataWord, Function: f})
	default:
		s.halfWord(at, f)
	}
}

// negated returns the function whose address, or half of it, the instruction around the pair at b[i] subtracts, or
// has loaded once its sign is changed or its complement taken.
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
	return f, ok && (imm >= 1 && (b[imm-1] == 0x2d || b[imm-1]&0xf8 == 0xb8) ||
		imm >= 2 && b[imm-2] == 0xc7 && b[imm-1]&0xf8 == 0xc0 || slices.ContainsFunc(modrmBefore[:], func(n int) bool {
		return imm >= n && b[imm-n] == 0x81 && b[imm-n+1]>>3&7 == 5
	}))
}

// modrmBefore is how far the opcode may be before the immediate: ModRM, perhaps SIB, and a displacement of 1 or 4
// bytes or none are between the two.
var modrmBefore = [...]int{2, 3, 4, 6, 7}

// isWord reports whether the address whose lower half is at b[imm] also has its upper half.
func isWord(b []byte, imm int) bool {
	return len(b) >= imm+8 && binary.LittleEndian.Uint32(b[imm+4:]) == 0xffffffff
}

// reference recognises the instruction whose immediate is at b[imm]; it reports whether the
// hit is used up: whether it is an instruction, kept or not. One or two bytes of opcode may also be a displacement.
func (s *search) reference(b []byte, vaddr uint64, imm int, f Function) bool {
	site, ok := referenceAt(b, imm)
	if !ok {
		return false
	}
	site.Function = f
	site.Vaddr = vaddr + uint64(imm) - site.Vaddr // so far: how far before the immediate
	s.add(site)
	return site.Kind != PushImm32 && site.Kind != CmpImm32
}

// referenceAt recognises a mov of the immediate at b[imm], a lea, a push of it and a comparison. The Vaddr of the site
// is the distance from its first byte to the immediate.
func referenceAt(b []byte, imm int) (Site, bool) {
	if imm >= 3 {
		rex, op, modrm := b[imm-3], b[imm-2], b[imm-1]
		if rex&0xf8 == 0x48 && op == 0xc7 && modrm&0xf8 == 0xc0 {
			return Site{Vaddr: 3, Len: 7, Kind: MovImm32, Reg: modrm&7 | rex&1<<3}, true
		}
	}
	// lea 0xffffffffff600400,%reg: ModRM with a SIB byte that names no register.
	if imm >= 4 && b[imm-4]&0xf8 == 0x48 && b[imm-3] == 0x8d && b[imm-2]&0xc7 == 0x04 && b[imm-1] == 0x25 {
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
		i, ok := x86.Decode(b[imm-n:min(imm+4, len(b))], 0)
		if ok && i.Op == want && i.Len == n+4 {
			return Site{Vaddr: uint64(n), Len: uint8(n + 4), Kind: kind}, true
		}
	}
	if imm >= 1 && b[imm-1] == 0x68 {
		return Site{Vaddr: 1, Len: 5, Kind: PushImm32}, true
	}
	return Site{}, false
}

// add keeps a site of the segment that is searched: another one may also claim to have that address.
func (s *search) add(site Site) {
	into := site.Vaddr - s.in.Vaddr
	if s.full() || into+uint64(site.Len) <= s.known || into > s.mapped(s.in) || s.mapped(s.in)-into < uint64(site.Len) {
		return
	}
	site.Offset = s.in.Off + into
	if s.head > 0 && into >= s.head {
		return
	}
	if site.Kind != DataWord && s.f.CodeAt(site.Offset+1) != nil && s.in.Flags&elf.PFX == 0 || (into >= s.in.Filesz || s.head > 0) && (!site.Loads() || s.f.Mappings(site.Offset) > 0) {
		return // searched with another segment, or data behind this one
	}
	s.sites = append(s.sites, site)
}

// mapped returns how many bytes of the file follow the start of a segment in memory: a kernel maps whole
// pages, and an instruction may go on in the segment behind.
func (s *search) mapped(p *elf.Prog) uint64 {
	end := elf.PageUp(p.Off + p.Filesz)
	if p.Flags&elf.PFX != 0 && end == p.Off+p.Filesz {
		end += x86.MaxLen
	}
	if p.Flags&elf.PFX == 0 {
		return p.Filesz
	}
	return min(end, s.f.Size) - p.Off
}

// codeHits is one look at b[lo:hi], code, for the page's address; for loads of the words, which may be half of it;
// and, in programs at fixed addresses, for call, jmp and jcc rel32 into the page and lea of it relative to rip.
// page is false where the loads alone are looked for. Of the distances from one place to another only the lower
// half varies from byte to byte: in a block of code the upper half is one of two.
func (s *search) codeHits(b []byte, vaddr uint64, lo, hi int, words []uint64, page bool) {
	if len(words) > maxNeedles {
		for i := max(lo, 1); i < min(hi, len(b)-6); i++ {
			s.load(b, vaddr, i, words)
		}
		words = nil
	}
	relative := page && s.f.Type == elf.TypeExec
	block := hi - lo
	if relative || len(words) > 0 {
		block = 1 << 15
	}
	// The upper half of a displacement is 3 bytes behind the opcode of a branch, 4 behind that of a load, and 5
	// if there is a SIB byte.
	const branch, load, sib = 3, 4, 5
	var buf [16]uint16
	for at := lo; at < hi; at += block { // opcodes from at to end
		end := min(at+block, hi)
		pairs := buf[:0]
		if page {
			pairs = append(pairs, pagePair, negativePage, negativeSlot)
		}
		from, to := vaddr+uint64(at), vaddr+uint64(end)
		if relative {
			pairs = appendUpper(pairs, Functions[0].Vaddr(), Functions[len(Functions)-1].Vaddr(), from+branch+2, to+branch+2)
		}
		pairs = s.appendLoads(pairs, words, from+load+2, to+load+2)
		for i := range elf.Pairs(b, at, end+sib, pairs) {
			if page && i < end {
				switch binary.LittleEndian.Uint16(b[i:]) {
				case pagePair:
					s.hit(b, vaddr, i, true)
				case negativePage, negativeSlot:
					if f, ok := negated(b, i); ok {
						s.partial(b, vaddr, i-2, f)
					}
				}
			}
			if op := i - branch; relative && op >= at && op < end {
				s.relative(b, vaddr, op)
			}
			for _, op := range [...]int{i - load, i - sib} {
				if len(words) > 0 && op >= max(at, 1) && op < min(end, len(b)-6) {
					s.load(b, vaddr, op, words)
				}
			}
		}
	}
}

// appendLoads appends the upper halves of what instructions that end from lo to hi have in them if they load one
// of the words: displacements, and addresses.
func (s *search) appendLoads(pairs []uint16, words []uint64, lo, hi uint64) []uint16 {
	for _, w := range words {
		pairs = appendUpper(pairs, w-min(w, tableSpan), w, lo, hi)
		if s.f.Type == elf.TypeExec && w <= math.MaxUint32 { // else no instruction has its address
			pairs = appendUpper(pairs, w-min(w, tableSpan), w, 0, 0)
		}
	}
	return pairs
}

// appendUpper appends the upper halves of the 32 bits from instructions that end from lo to hi to the addresses
// from first to last, each once.
func appendUpper(pairs []uint16, first, last, lo, hi uint64) []uint16 {
	from, to := uint16(uint32(first-hi)>>16), uint16(uint32(last-lo)>>16)
	for u := from; ; u++ {
		if !slices.Contains(pairs, u) {
			pairs = append(pairs, u)
		}
		if u == to {
			return pairs
		}
	}
}

// relative looks at the opcode b[op] of what may be a branch into the page, or b[op] as the ModRM byte of a lea.
func (s *search) relative(b []byte, vaddr uint64, op int) {
	i := op + 1
	jcc := op > 0 && b[op-1] == 0x0f && b[op]&0xf0 == 0x80
	lea := op > 1 && b[op-2]&0xf8 == 0x48 && b[op-1] == 0x8d && b[op]&0xc7 == 5 // off rip
	if s.full() || i+4 > len(b) || b[op] != 0xe8 && b[op] != 0xe9 && !jcc && !lea {
		return
	}
	v := vaddr + uint64(op)
	f, ok := FunctionAt(v + 5 + uint64(int64(int32(binary.LittleEndian.Uint32(b[i:])))))
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
