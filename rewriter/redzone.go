// The red zone: 128 bytes below the stack pointer that a function which calls nothing may use
// (x86-64 psABI, 3.2.2). A compiler that meets a call in inline assembly takes the function for
// one that calls nothing. The page leaves those bytes alone, but for the return address of the
// call; a trampoline and the vDSO do not.

package rewriter

import (
	"golang.org/x/arch/x86/x86asm"

	"vfix.dev/vfix/rewriter/x86"
)

// belowStack is why no trampoline may be called.
const belowStack = "its function keeps data below the stack pointer, where a trampoline needs room"

// redZone reports whether the function of the reference, or of its call, reads or writes below
// its stack pointer. A jump at the function's end leaves nothing there that counts. Where the
// function passes the pointer on, compilers see the calls.
func (c *code) redZone(fn *functions, b *body, s *Site) bool {
	if s.Calls == 0 {
		return false
	}
	if d, ok := c.frame(b)[s.Call]; s.Tail && s.Calls == 1 && ok && d.HasSP && d.SP == 0 {
		return false
	}
	if c.usesRedZone(b) {
		return true
	}
	if b.lens[s.Call] != 0 {
		return false
	}
	other := c.holder(fn, s.Call)
	return other != nil && c.usesRedZone(other)
}

func (c *code) usesRedZone(b *body) bool {
	fr := c.frame(b)
	// Where the depth of the stack is not known, rbp stands at the stack pointer unless
	// something makes room below it.
	unknown, room := false, false
	for at := range b.lens {
		i, ok := c.at(at)
		if !ok {
			continue
		}
		dst, _, isReg := i.ArgGPR(0)
		if isReg && dst == x86.Rsp && (i.Op == x86asm.SUB || i.Op == x86asm.ADD || i.Op == x86asm.LEA) {
			room = true
		}
		m, ok := i.Mem()
		if !ok || i.Op == x86asm.NOP || i.Op == x86asm.LEA && isReg && (dst == x86.Rsp || dst == x86.Rbp) {
			continue
		}
		d := fr[at]
		switch {
		case m.Base == x86asm.RSP && m.Disp < 0:
			return true
		case m.Base != x86asm.RBP || m.Disp >= 0:
		case d.HasSP && d.HasBP:
			if d.BP+m.Disp < d.SP {
				return true
			}
		case !d.HasSP:
			unknown = true
		}
	}
	return unknown && !room
}
