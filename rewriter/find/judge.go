// The verdict on a reference. Compilers load the address into rax and call it at once, in straight code: that is
// the first judge. The flow judges other code (flow.go); a reference without proof is unknown and stays.

package find

import (
	"math"
	"slices"
	"strings"

	"golang.org/x/arch/x86/x86asm"

	"vfix.dev/vfix/rewriter/elf"
	"vfix.dev/vfix/rewriter/x86"
)

const (
	// farUse is the number of instructions from a load within which straight code uses it.
	farUse = 12
	// maxSweep is the largest distance from a start that decoding begins at, in bytes.
	maxSweep = 4 << 20

	// The constants of PTR_MANGLE, glibc's sysdeps/unix/sysv/linux/x86_64/pointer_guard.h.
	guardOffset = 0x30
	guardRotate = 0x11
)

// judge judges the sites of one file.
type judge struct {
	code
	fn               *functions
	goMade, valgrind bool
	sweep            sweep
}

// sweep is the last decoding from a start: sites are judged in vaddr order, so that no code is decoded twice.
type sweep struct {
	start uint64
	at    uint64 // noCode once the bytes there could not be decoded
}

const noCode = math.MaxUint64

// site sets the verdict of a site; it reports whether the site is one.
func (j *judge) site(s *Site) bool {
	switch {
	case s.Kind == DataWord:
		s.Reason.Cause = InData
		if j.goMade && (s.Symbol == "" || strings.HasPrefix(s.Symbol, "runtime.")) {
			s.Verdict, s.Reason.Cause = Dormant, GoData
		}
	case s.Kind == StoreImm32 && j.threadLocal(s.Vaddr-1):
		s.Vaddr, s.Offset, s.Len = s.Vaddr-1, s.Offset-1, s.Len+1
		s.Reason = Reason{Cause: Stored, At: s.Vaddr}
	case !j.boundary(s.Vaddr):
		s.Reason.Cause = MaybeData
		return s.Loads() // others are bytes of another instruction
	case s.Kind == CmpImm32:
		s.Verdict, s.Reason.Cause = Benign, Compared
	case s.Kind == StoreImm32 && j.valgrind:
		s.Verdict, s.Reason.Cause = Benign, Valgrind
	case s.Kind == PushImm32:
		s.Reason.Cause = Pushed
	case s.Kind == StoreImm32:
		j.flow(s)
	default:
		if !j.straight(s) {
			j.flow(s)
		}
		j.shape(s)
	}
	return true
}

// threadLocal reports whether a store into a variable of the thread begins at vaddr, with a segment prefix.
func (j *judge) threadLocal(vaddr uint64) bool {
	return (j.has(vaddr, prefixFS) || j.has(vaddr, prefixGS)) && j.boundary(vaddr)
}

const (
	prefixFS = 0x64
	prefixGS = 0x65
)

// boundary reports whether an instruction begins at vaddr: it is in an executable section, and decoding from the last
// known start of a function or of a section leads to it.
func (j *judge) boundary(vaddr uint64) bool {
	if len(j.f.Sections) > 0 {
		s := j.f.codeSection(vaddr)
		if s == nil {
			return false
		}
		if at, ok := j.fn.starts.enclosing(vaddr); !ok || at < s.Addr {
			return vaddr-s.Addr <= maxSweep && j.meets(s.Addr, vaddr)
		}
	}
	at, ok := j.fn.starts.enclosing(vaddr)
	return ok && vaddr-at <= maxSweep && j.meets(at, vaddr)
}

// codeSection returns the executable section with vaddr, nil for none.
func (f *File) codeSection(vaddr uint64) *elf.Section {
	i := slices.IndexFunc(f.Sections, func(s elf.Section) bool {
		return s.Flags&elf.SHFExecinstr != 0 && vaddr-s.Addr < s.Size
	})
	if i < 0 {
		return nil
	}
	return &f.Sections[i]
}

// meets reports whether the instructions from start on lead to vaddr, which is not below that of an earlier call for
// the same start.
func (j *judge) meets(start, vaddr uint64) bool {
	w := &j.sweep
	if w.start != start {
		*w = sweep{start: start, at: start}
	}
	for w.at < vaddr {
		i, ok := j.at(w.at)
		if w.at = i.Next(); !ok {
			w.at = noCode
		}
	}
	return w.at == vaddr
}

// track is what the first judge knows between two instructions.
type track struct {
	held    x86.Regs // the registers with the address
	kept    bool     // a call has left it in a register that calls may change
	chosen  bool     // a conditional move has copied it, which follows a test for the vDSO
	guarded bool     // it is XORed with the pointer guard
}

// straight judges a load by the code behind it, up to the first jump, and reports whether it could. A call through
// rax overwrites the address, so that nothing behind it can see it.
func (j *judge) straight(s *Site) bool {
	t := track{held: x86.RegsOf(int(s.Reg))}
	at := s.Vaddr + uint64(s.Len)
	for range farUse {
		i, ok := j.at(at)
		if !ok {
			return false
		}
		at = i.Next()
		switch r, through := i.CallsThrough(); {
		case through && t.held.Has(r):
			if t.guarded || r != x86.Rax || t.held != x86.RegsOf(r) {
				return false
			}
			s.use(&i)
			return true
		case i.Flow == x86.FlowRet && t.chosen && t.held.Has(x86.Rax) && j.ifunc(s.Vaddr):
			s.called(Dormant, IfuncRet, i.Addr)
			return true
		case i.Calls():
			t.held &^= x86.RegsOf(x86.Rax)
			t.kept = t.kept || t.held&x86.CallerSaved != 0 // by -fipa-ra
		case i.Flow != x86.FlowNext:
			return false
		default:
			if known, decided := t.next(s, &i); decided || !known {
				return decided
			}
		}
		if t.held == 0 {
			return false
		}
	}
	return false
}

// next follows the address over one instruction that continues at the next; known is false if it uses the address in
// another way than by copying it, and decided is true if that is the verdict on s.
func (t *track) next(s *Site, i *x86.Instr) (known, decided bool) {
	dst, width, toReg := i.ArgGPR(0)
	src, srcWidth, fromReg := i.ArgGPR(1)
	m, _ := i.Mem()
	n, _ := i.Args[1].(x86asm.Imm)
	whole := width == 64 && srcWidth == 64 && fromReg
	stores := i.Op == x86asm.MOV && !toReg && fromReg && t.held.Has(src) && i.AddressRegs()&t.held == 0
	switch {
	case i.Op == x86asm.MOV && whole && t.held.Has(src):
		t.held |= x86.RegsOf(dst)
	case i.IsConditionalMove() && width == 64 && (t.held.Has(dst) || fromReg && t.held.Has(src)):
		t.held, t.chosen = t.held|x86.RegsOf(dst), true
	case i.Op == x86asm.XOR && m.Segment == x86asm.FS && m.Disp == guardOffset && t.held.Has(dst):
		t.held, t.guarded = x86.RegsOf(dst), true
	case t.guarded && i.Op == x86asm.ROL && n == guardRotate && t.held.Has(dst):
	case stores && t.guarded && t.chosen:
		s.called(Dormant, Mangled, i.Addr)
		return true, true
	case stores && t.chosen && t.kept && s.Function == Gettimeofday: // dietlibc's
		s.Verdict, s.Reason = Dormant, Reason{Cause: ImageBase, At: i.Addr}
		return true, true
	case t.held&i.Touches()&^i.Overwrites() != 0:
		return false, false
	default:
		t.held &^= i.Overwrites()
	}
	return true, false
}

// called sets the verdict of a site whose address is only called.
func (s *Site) called(v Verdict, cause Cause, at uint64) {
	s.Verdict, s.Called, s.Reason = v, true, Reason{Cause: cause, At: at}
}

// use adds a call or jump through the address.
func (s *Site) use(i *x86.Instr) {
	if s.Call == 0 || i.Addr < s.Call {
		s.Call, s.CallLen, s.Tail = i.Addr, uint8(i.Len), i.Flow == x86.FlowIndirect
	}
	s.called(Live, Called, s.Call)
}

// ifunc reports whether vaddr is in the resolver of an IFUNC symbol.
func (j *judge) ifunc(vaddr uint64) bool {
	start, ok := j.fn.starts.enclosing(vaddr)
	return ok && j.fn.ifuncs[start]
}

// shape sets what the forms depend on.
func (j *judge) shape(s *Site) {
	s.Alone = s.Call == s.Vaddr+uint64(s.Len) && s.Reg == x86.Rax
	if !s.Alone {
		return
	}
	start, end := s.Vaddr, s.Call+uint64(s.CallLen)
	switch {
	case s.Tail:
	case j.has(start-4, subRsp8...) && j.has(end, append(slices.Clone(addRsp8), opRet)...):
		start, end = start-4, end+5
	case j.has(end, opRet):
		end++
	default:
		return
	}
	if j.fn.starts.has(start) && !j.fn.starts.within(start+1, end) {
		s.Stub = Extent{start, end - start}
		s.Named = j.fn.public[start]
	}
}

// The two instructions that keep the stack aligned in a stub, and ret.
var (
	subRsp8 = []byte{0x48, 0x83, 0xec, 0x08}
	addRsp8 = []byte{0x48, 0x83, 0xc4, 0x08}
)

const opRet = 0xc3
