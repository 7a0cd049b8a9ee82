// The proof of a plan: what a patch does is read from its bytes, and held against what is known
// of the file, whatever the plan says of itself.

package rewriter

import (
	"fmt"
	"slices"

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
	if s.RedZone && q.Form != Syscall {
		return fail(belowStack)
	}
	end := q.Vaddr + uint64(len(q.After))
	if end > s.Vaddr+uint64(s.Len) || q.Vaddr < s.Vaddr { // more than the reference itself
		switch {
		case s.Shared || s.Calls != 1:
			return fail("its call is reached from elsewhere too")
		case s.Open != "":
			return fail("%s", s.Open)
		case q.Vaddr < s.Vaddr && (s.Stub.Len == 0 || q.Vaddr != s.Stub.Vaddr):
			return fail("what stands before it is not the start of a stub")
		}
	}
	if q.Form == Syscall {
		if clobbered&^x86.Regs(s.Dead) != 0 {
			return fail("rcx or r11 may be read after it")
		}
		return nil
	}
	segment, _ := p.injectedAt()
	at := branchTarget(q) - segment
	t := [...]shim.Trampoline{Gettimeofday: shim.Injected().Gettimeofday, Time: shim.Injected().Time, Getcpu: shim.Injected().Getcpu}[s.Function]
	switch at {
	case uint64(t.Keep):
	case uint64(t.Plain):
		if x86.Regs(s.Dead) != deadCandidates && !(s.ABI && q.Form == Entry) {
			return fail("a register that C code may change may be read after it")
		}
	default:
		return fail("it leads to vaddr %#x, which is no trampoline of %v", branchTarget(q), s.Function)
	}
	return nil
}

// golike reports whether q is a system call in Go's own code, which keeps no register.
func (p *Plan) golike(q *Patch) bool {
	isGo, err := origin.Go(p.file.File)
	return err == nil && isGo && q.Site.single()
}

// injectedAt returns the vaddr of the segment that the plan adds.
func (p *Plan) injectedAt() (uint64, error) {
	if p.file.was != nil {
		return p.file.was.segment.Vaddr, nil
	}
	place, err := p.file.findRoom()
	return place.vaddr, err
}
