// The second judge: a small flow of one function, for an address in a register that calls preserve, before a loop,
// or in a word of the frame, as without optimisation. It follows the address along all jumps and into functions of
// the file that get it as an argument. Each use that it sees must be a call, a jump or a copy, and one a call or a jump.
//
// It does not follow tables of jumps, exceptions, or registers behind a call that may change them. A call there that it
// does not see is right nevertheless: what takes the place of the address is a function of the same type.

package find

import (
	"golang.org/x/arch/x86/x86asm"

	"vfix.dev/vfix/rewriter/x86"
)

// maxSteps is the maximum number of instructions that the flow visits.
const maxSteps = 4096

// places are where the address may be between two instructions.
type places struct {
	regs x86.Regs
	slot int32 // of the frame: the distance of the word from rbp; 0 for none, as the saved rbp is there
}

// flow is the state of the second judge for one site.
type flow struct {
	*judge
	site    *Site
	before  map[uint64]places // what may have the address before an instruction
	pending []uint64          // instructions to visit, perhaps again
	reason  Reason            // why the site is unknown
	unknown bool
}

// flow judges a site that straight code does not decide.
func (j *judge) flow(s *Site) {
	f := &flow{judge: j, site: s, before: make(map[uint64]places)}
	f.load()
	for steps := 0; len(f.pending) > 0 && !f.unknown; steps++ {
		last := len(f.pending) - 1
		at := f.pending[last]
		f.pending = f.pending[:last]
		i, ok := f.at(at)
		switch {
		case steps == maxSteps:
			f.fail(TooFar, at)
		case !ok:
			f.fail(Undecoded, at)
		default:
			f.step(&i, f.before[at])
		}
	}
	switch {
	case f.unknown:
		s.Verdict, s.Called, s.Reason = Unknown, false, f.reason
		s.Call, s.CallLen, s.Tail = 0, 0, false
	case s.Call == 0:
		s.Reason.Cause = NoUse
	}
}

// load begins behind the reference.
func (f *flow) load() {
	s := f.site
	next := s.Vaddr + uint64(s.Len)
	if s.Loads() {
		f.reach(next, places{regs: x86.RegsOf(int(s.Reg))})
		return
	}
	i, _ := f.at(s.Vaddr)
	slot, ok := slotOf(&i)
	if !ok || i.MemBytes != wordSize || !f.framed(s.Vaddr) {
		f.fail(Stored, s.Vaddr)
		return
	}
	f.reach(next, places{slot: slot})
}

// fail makes the site unknown.
func (f *flow) fail(cause Cause, at uint64) {
	f.unknown, f.reason = true, Reason{Cause: cause, At: at}
}

// reach adds places that may have the address before the instruction at vaddr.
func (f *flow) reach(vaddr uint64, p places) {
	was, seen := f.before[vaddr]
	switch {
	case p == places{}:
		return
	case was.slot != 0 && p.slot != 0 && was.slot != p.slot:
		f.fail(TwoSlots, vaddr)
		return
	}
	now := places{was.regs | p.regs, was.slot | p.slot}
	if !seen || now != was {
		f.before[vaddr] = now
		f.pending = append(f.pending, vaddr)
	}
}

// isLast reports whether another function begins at vaddr, behind padding, or the code ends there.
func (f *flow) isLast(vaddr uint64) bool {
	for range maxPadding {
		ends := f.f.Load(vaddr) == nil || len(f.f.Sections) > 0 && f.f.codeSection(vaddr) == nil
		if f.fn.starts.has(vaddr) || ends {
			return true
		}
		i, ok := f.at(vaddr)
		if !ok || i.Op != x86asm.NOP {
			return false
		}
		vaddr = i.Next()
	}
	return false
}

// maxPadding is the number of nops between two functions.
const maxPadding = 16

// step follows the address over one instruction.
func (f *flow) step(i *x86.Instr, p places) {
	r, through := i.CallsThrough()
	slot, inFrame := slotOf(i)
	fromSlot := inFrame && slot == p.slot && i.MemBytes == wordSize
	indirect := i.Flow == x86.FlowIndirect || i.Flow == x86.FlowCallInd
	switch {
	case through && p.regs.Has(r) || indirect && fromSlot:
		f.site.use(i)
		if i.Calls() {
			f.afterCall(i, p)
		}
	case p.regs&i.AddressRegs() != 0:
		f.used(i)
	case i.Calls():
		f.call(i, p)
	case i.Flow == x86.FlowRet && p.regs.Has(x86.Rax):
		f.fail(Returned, i.Addr)
	case i.Flow == x86.FlowRet || i.Flow == x86.FlowStop:
	case i.Flow == x86.FlowIndirect:
		f.fail(Branches, i.Addr)
	case i.Flow == x86.FlowJump:
		f.reach(i.Target, p)
	case i.Flow == x86.FlowCond && p.regs&i.Touches() != 0:
		f.used(i)
	case i.Flow == x86.FlowCond:
		f.reach(i.Target, p)
		f.reach(i.Next(), p)
	default:
		f.next(i, p)
	}
}

// used makes the site unknown because of an instruction that uses the address.
func (f *flow) used(i *x86.Instr) {
	f.fail(Used, i.Addr)
	f.reason.Op = i.Op
}

// call follows arguments into a function of the file.
func (f *flow) call(i *x86.Instr, p places) {
	args := p.regs & x86.ArgRegs
	switch {
	case f.isLast(i.Next()): // it does not return, as __stack_chk_fail
		return
	case args == 0:
	case i.Flow == x86.FlowCallInd:
		f.fail(Passed, i.Addr)
		return
	default:
		f.reach(i.Target, places{regs: args})
	}
	f.afterCall(i, p)
}

// afterCall continues behind a call with what it preserves (psABI 3.2.1). An exception may continue elsewhere.
func (f *flow) afterCall(i *x86.Instr, p places) {
	p.regs &^= x86.CallerSaved
	if (p != places{}) && f.landingPads(i.Addr) {
		f.fail(Thrown, i.Addr)
		return
	}
	if !f.isLast(i.Next()) {
		f.reach(i.Next(), p)
	}
}

// landingPads reports whether the function around vaddr handles exceptions.
func (f *flow) landingPads(vaddr uint64) bool {
	start, _ := f.fn.starts.enclosing(vaddr)
	fde, ok := f.fn.fdes[start]
	return ok && f.f.HasLandingPads(fde)
}

// next follows the address over an instruction that continues at the next.
func (f *flow) next(i *x86.Instr, p places) {
	dst, width, toReg := i.ArgGPR(0)
	src, srcWidth, fromReg := i.ArgGPR(1)
	slot, inFrame := slotOf(i)
	moves := i.Op == x86asm.MOV
	toFrame := moves && !toReg && inFrame && i.MemBytes == wordSize
	switch {
	case moves && width == 64 && srcWidth == 64 && p.regs.Has(src):
		p.regs |= x86.RegsOf(dst)
	case toFrame && fromReg && p.regs.Has(src):
		if !f.framed(i.Addr) {
			f.fail(Stored, i.Addr)
			return
		}
		if p.slot != 0 && p.slot != slot {
			f.fail(TwoSlots, i.Addr)
			return
		}
		p.slot = slot
	case p.regs&i.Touches()&^i.Overwrites() != 0:
		f.used(i)
		return
	case toFrame && slot == p.slot:
		p.slot = 0
	case moves && width == 64 && inFrame && slot == p.slot:
		p.regs |= x86.RegsOf(dst)
	case p.slot != 0 && leavesFrame(i):
		p.regs, p.slot = p.regs&^i.Overwrites(), 0
	case p.slot != 0 && mayTouch(i, p.slot):
		f.used(i)
		return
	default:
		p.regs &^= i.Overwrites()
	}
	f.reach(i.Next(), p)
}

// slotOf returns the word of the frame that is the memory operand of i, as its distance from rbp.
func slotOf(i *x86.Instr) (slot int32, ok bool) {
	m, _ := i.Mem()
	if m.Base != x86asm.RBP || m.Index != 0 || m.Segment != 0 || m.Disp >= 0 || m.Disp < -maxFrame {
		return 0, false
	}
	return int32(m.Disp), true
}

// maxFrame is the largest frame that the flow knows, in bytes.
const maxFrame = 1 << 20

// framed reports whether rbp is the frame pointer of the function around vaddr, by its first instructions.
func (f *flow) framed(vaddr uint64) bool {
	start, ok := f.fn.starts.enclosing(vaddr)
	if !ok {
		return false
	}
	if f.has(start, endbr64...) {
		start += uint64(len(endbr64))
	}
	return f.has(start, pushRbp, 0x48, 0x89, 0xe5)
}

const pushRbp = 0x55 // push %rbp, which mov %rsp,%rbp follows

var endbr64 = []byte{0xf3, 0x0f, 0x1e, 0xfa}

// leavesFrame reports whether i restores the caller's rbp.
func leavesFrame(i *x86.Instr) bool {
	r, _, ok := i.ArgGPR(0)
	return i.Op == x86asm.LEAVE || i.Op == x86asm.POP && ok && r == x86.Rbp
}

// mayTouch reports whether i may access a word of the frame, or has rbp as its first operand.
func mayTouch(i *x86.Instr, slot int32) bool {
	if r, _, ok := i.ArgGPR(0); ok && r == x86.Rbp {
		return true
	}
	m, ok := i.Mem()
	switch {
	case !ok:
		return false
	case m.Base == x86asm.RSP:
		return true
	}
	at, inFrame := slotOf(i)
	size := max(int32(i.MemBytes), 1) // 0 of lea, which takes the word's address
	return inFrame && at < slot+wordSize && slot < at+size
}
