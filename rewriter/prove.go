// The proof of a plan: what a patch does is read from its bytes, and held against what is known
// of the file, whatever the plan says of itself.

package rewriter

import (
	"fmt"
	"slices"

	"golang.org/x/arch/x86/x86asm"

	"vfix.dev/vfix/rewriter/origin"
	"vfix.dev/vfix/rewriter/x86"
	"vfix.dev/vfix/shim"
)

// prove checks every patch. The error names the site.
func (p *Plan) prove() error {
	if p.Empty() {
		return nil
	}
	r, err := scanELF(p.file, scope{})
	if err != nil {
		return err
	}
	for i := range p.Patches {
		n := slices.IndexFunc(r.Sites, func(s Site) bool { return s.Vaddr == p.Patches[i].Site.Vaddr })
		var s *Site
		if n >= 0 {
			s = &r.Sites[n]
		}
		if err := p.proveOne(&p.Patches[i], s); err != nil {
			return err
		}
	}
	return nil
}

// proveOne checks one patch, of what was found at its site anew.
func (p *Plan) proveOne(q *Patch, s *Site) error {
	if q.Form == Left || q.Form == Syscall && p.golike(q) {
		return nil
	}
	fail := func(format string, a ...any) error {
		return fmt.Errorf("call site at vaddr %#x: the %v form is not proved: %s", q.Site.Vaddr, q.Form, fmt.Sprintf(format, a...))
	}
	if s == nil || !s.Verdict.Patchable() {
		return fail("nothing calls the page there")
	}
	if len(q.After) != len(q.Before) {
		return fail("%d bytes take the place of %d", len(q.After), len(q.Before))
	}
	end := q.Vaddr + uint64(len(q.After))
	switch {
	case q.Form == Entry:
		if s.Stub.Len == 0 || q.Vaddr != s.Stub.Vaddr || end > s.Stub.end() {
			return fail("its function is more than a stub")
		}
	case q.Form == Syscall:
		if !s.Free || q.Vaddr != s.Vaddr && q.Vaddr != s.Stub.Vaddr {
			return fail("rcx or r11 may be read after it, or its call is reached from elsewhere too")
		}
		return nil
	case q.Vaddr != s.Vaddr || end != s.Vaddr+uint64(s.Len):
		return fail("more or less than the reference changes")
	case q.Form == Lea && !s.Loads() || q.Form == Call && !s.direct() || q.Form == Imm && (s.Loads() || s.direct()):
		return fail("it is of another kind")
	case q.Form == Lea && !loadsSame(q.Before, q.After):
		return fail("another register is loaded")
	}
	segment, _ := p.injectedAt()
	at := branchTarget(q) - segment
	t := [...]shim.Trampoline{Gettimeofday: shim.Injected().Gettimeofday, Time: shim.Injected().Time, Getcpu: shim.Injected().Getcpu}[s.Function]
	switch at {
	case uint64(t.Keep):
	case uint64(t.Plain):
		if q.Form != Entry || !s.Named {
			return fail("a register that C code may change may be read after it")
		}
	default:
		return fail("it leads to vaddr %#x, which is no trampoline of %v", branchTarget(q), s.Function)
	}
	return nil
}

// loadsSame reports whether the last instruction of after writes the register that before does.
func loadsSame(before, after []byte) bool {
	was, ok := x86.Decode(before, 0)
	for len(after) > 0 && ok {
		var is x86.Instr
		if is, ok = x86.Decode(after, 0); ok && is.Len == len(after) {
			return is.Op == x86asm.LEA && is.Args[0] == was.Args[0]
		} else if is.Op != x86asm.NOP {
			return false
		}
		after = after[is.Len:]
	}
	return false
}

// golike reports whether q is a system call in Go's own code, which keeps no register.
func (p *Plan) golike(q *Patch) bool {
	isGo, err := origin.Go(p.file.File)
	return err == nil && isGo && q.Site.Alone
}

// injectedAt returns the vaddr of the segment that the plan adds.
func (p *Plan) injectedAt() (uint64, error) {
	if p.file.was != nil {
		return p.file.was.segment.Vaddr, nil
	}
	place, err := p.file.findRoom()
	return place.vaddr, err
}
