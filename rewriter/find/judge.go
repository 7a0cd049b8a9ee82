// The verdict on a reference. Compilers load the address into rax and call it at once, in straight code; what is
// not so, or not proved to be an instruction, is unknown and stays.

package find

import (
	"slices"
	"strings"

	"golang.org/x/arch/x86/x86asm"

	"vfix.dev/vfix/rewriter/elf"
	"vfix.dev/vfix/rewriter/x86"
)

const (
	farUse     = 12 // instructions from a load to its use
	resyncFrom = 48 // bytes before a site in code without a known start
	resyncs    = 16 // decodings of which three quarters must meet at the site

	// The constants of PTR_MANGLE, glibc's sysdeps/unix/sysv/linux/x86_64/pointer_guard.h.
	guardOffset = 0x30
	guardRotate = 0x11
)

// judge judges the sites of one file.
type judge struct {
	code
	fn               *functions
	goMade, valgrind bool
}

// site sets the verdict of a site; it reports whether the site is one.
func (c *judge) site(s *Site) bool {
	switch {
	case s.Kind == DataWord:
		s.Reason.Cause = InData
		if c.goMade && (s.Symbol == "" || strings.HasPrefix(s.Symbol, "runtime.")) {
			s.Verdict, s.Reason.Cause = Dormant, GoData
		}
	case !c.boundary(s):
		s.Reason.Cause = MaybeData
		return s.Loads() // others are bytes of another instruction
	case s.Kind == CmpImm32:
		s.Verdict, s.Reason.Cause = Benign, Compared
	case s.Kind == StoreImm32 && c.valgrind:
		s.Verdict, s.Reason.Cause = Benign, Valgrind
	case s.Kind == PushImm32:
		s.Reason.Cause = Pushed
	case s.Kind == StoreImm32:
		s.Reason.Cause = Stored
	default:
		c.use(s)
		if s.Called {
			c.shape(s)
		}
	}
	return true
}

// boundary reports whether decoding from the last known start before s, or else from most places before it, leads to it.
func (c *judge) boundary(s *Site) bool {
	if len(c.f.Sections) > 0 && !slices.ContainsFunc(c.f.Sections, func(x elf.Section) bool {
		return x.Flags&elf.SHFExecinstr != 0 && s.Vaddr-x.Addr < x.Size
	}) {
		return false
	}
	if at, ok := c.fn.starts.enclosing(s.Vaddr); ok && s.Vaddr-at < maxFunction && c.meets(at, s.Vaddr) {
		return true
	}
	met := 0
	for n := uint64(0); n < resyncs; n++ {
		if c.meets(s.Vaddr-resyncFrom+n, s.Vaddr) {
			met++
		}
	}
	return met >= resyncs*3/4
}

// meets reports whether the instructions from at on lead to vaddr.
func (c *judge) meets(at, vaddr uint64) bool {
	for at < vaddr {
		i, ok := c.at(at)
		if !ok {
			return false
		}
		at = i.Next()
	}
	return at == vaddr
}

// use follows the loaded register along the code behind s.
func (c *judge) use(s *Site) {
	held, chosen, guarded := x86.RegsOf(int(s.Reg)), false, false
	at := s.Vaddr + uint64(s.Len)
	for range farUse {
		i, ok := c.at(at)
		if !ok || !i.Known {
			break
		}
		at = i.Next()
		dst, width, isReg := i.ArgGPR(0)
		src, srcWidth, fromReg := i.ArgGPR(1)
		r, through := i.Through()
		through = through && (i.Flow == x86.FlowCallInd || i.Flow == x86.FlowIndirect)
		whole := width == 64 && srcWidth == 64 && fromReg
		m, _ := i.Mem()
		n, _ := i.Args[1].(x86asm.Imm)
		switch {
		case through && held.Has(r) && guarded:
			s.Reason = Reason{Cause: CalledGuarded, At: i.Addr}
			return
		case through && held.Has(r):
			if r != x86.Rax || held != x86.RegsOf(r) {
				s.Reason = Reason{Cause: CallKeeps, At: i.Addr}
				return
			}
			s.Call, s.CallLen, s.Tail = i.Addr, uint8(i.Len), i.Flow == x86.FlowIndirect
			s.called(Live, Called, i.Addr)
			if chosen {
				s.called(Dormant, ChosenCall, i.Addr)
			}
			return
		case i.Flow == x86.FlowRet && held.Has(x86.Rax) && c.ifunc(s.Vaddr):
			s.called(Dormant, IfuncRet, i.Addr)
			return
		case i.Flow != x86.FlowNext && !i.Calls():
			s.Reason.Cause = Branches
			return
		case i.Calls(): // gcc keeps values in registers that the callee does not change
		case i.Op == x86asm.MOV && whole && held.Has(src):
			held |= x86.RegsOf(dst)
		case i.IsConditionalMove() && width == 64 && (held.Has(dst) || fromReg && held.Has(src)):
			held, chosen = held|x86.RegsOf(dst), true
		case i.Op == x86asm.XOR && m.Segment == x86asm.FS && m.Disp == guardOffset && held.Has(dst):
			held, guarded = x86.RegsOf(dst), true
		case guarded && i.Op == x86asm.ROL && n == guardRotate && held.Has(dst):
		case i.Op == x86asm.MOV && !isReg && fromReg && held.Has(src) && guarded:
			s.called(Dormant, Mangled, i.Addr)
			return
		case i.Op == x86asm.MOV && !isReg && fromReg && held.Has(src) && chosen:
			s.Verdict, s.Reason = Dormant, Reason{Cause: ImageBase, At: i.Addr}
			return
		case (i.Operands|i.AddressRegs())&held != 0:
			s.Reason = Reason{Cause: Used, At: i.Addr, Op: i.Op}
			return
		default:
			held &^= i.Writes
		}
		if held == 0 {
			break
		}
	}
	s.Reason.Cause = NoUse
}

// called sets the verdict of a site whose address is only called.
func (s *Site) called(v Verdict, cause Cause, at uint64) {
	s.Verdict, s.Called, s.Reason = v, true, Reason{Cause: cause, At: at}
}

func (c *judge) ifunc(vaddr uint64) bool {
	start, ok := c.fn.starts.enclosing(vaddr)
	return ok && c.fn.ifuncs[start]
}

// shape sets what the forms depend on.
func (c *judge) shape(s *Site) {
	s.Alone = s.Adjacent() && s.Reg == x86.Rax
	if s.Alone {
		start, end := s.Vaddr, s.Call+uint64(s.CallLen)
		switch {
		case s.Tail:
		case c.has(start-4, subRsp8...) && c.has(end, append(slices.Clone(addRsp8), opRet)...):
			start, end = start-4, end+5
		case c.has(end, opRet):
			end++
		default:
			end = 0
		}
		if end != 0 && c.fn.starts.has(start) && !c.fn.starts.within(start+1, end) {
			s.Stub = Extent{start, end - start}
			s.Named = c.fn.public[start]
		}
	}
	s.Free = s.Stub.Len >= syscallLen
}

// The two instructions that keep the stack aligned in a stub, and ret.
var (
	subRsp8 = []byte{0x48, 0x83, 0xec, 0x08}
	addRsp8 = []byte{0x48, 0x83, 0xc4, 0x08}
)

const (
	opRet = 0xc3
	// syscallLen is the length in bytes of a function that makes a system call and changes only rax.
	syscallLen = 14
)
