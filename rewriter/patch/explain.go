// The disassembly around a site, before and after the patch.

package patch

import (
	"bytes"

	"vfix.dev/vfix/rewriter/find"
	"vfix.dev/vfix/rewriter/x86"
)

const (
	// explainBefore is the distance from a site up to which its function is shown from its start, explainAfter how
	// far the listing continues behind the last relevant byte, both in bytes.
	explainBefore = 64
	explainAfter  = 16
	// explainCall is the distance behind a site up to which its call is shown, in bytes.
	explainCall = 64
)

// explain disassembles the code around the patch, from the start of the function if that is near, else from the
// site, before and after. A site in data has no listing.
func (p *Plan) explain(patch *Patch) (e find.Explanation) {
	s := &patch.Site
	if s.Kind == find.DataWord {
		return e
	}
	f := p.file.File
	start, end := s.Vaddr, s.Vaddr+uint64(s.Len)
	start = f.Start(start, explainBefore)
	if s.Stub.Len != 0 {
		start, end = s.Stub.Vaddr, max(end, s.Stub.End())
	} else {
		if call := s.Call + uint64(s.CallLen); call-s.Vaddr <= explainCall {
			end = max(end, call)
		}
		end += explainAfter
	}
	e = p.listing(f, start, end, trampolineName(s, patch.Form))
	for i := range e.After {
		l := &e.After[i]
		if patch.Form == Entry && l.Vaddr > s.Stub.Vaddr && l.Vaddr < s.Stub.End() { // behind the jump
			l.Bury()
		}
	}
	return e
}

// listing disassembles the code from start to end, before and after the edits; name is the name of the injected
// code that it leads to.
func (p *Plan) listing(f *find.File, start, end uint64, name string) (e find.Explanation) {
	off, ok := f.Offset(start, 1)
	if !ok {
		return e
	}
	before := f.Mem(start, end-start)
	after := p.patched(before, off)
	if e.Before, e.After = x86.Listing(before, after, start); bytes.Equal(before, after) {
		e.After = nil
	}
	nameTrampoline(e.After, f, name)
	return e
}

// explainAll sets the listing of each patch.
func (p *Plan) explainAll() {
	for i := range p.Patches {
		e := p.explain(&p.Patches[i])
		p.Patches[i].Listing = &e
	}
	p.explainRedirect()
}

// patched returns the bytes at offset off of the file with the edits applied.
func (p *Plan) patched(b []byte, off uint64) []byte {
	b = bytes.Clone(b)
	for _, e := range p.Edits {
		for i, c := range e.New {
			if at := e.Offset + uint64(i) - off; at < uint64(len(b)) {
				b[at] = c
			}
		}
	}
	return b
}

// nameTrampoline adds the trampoline's name to each changed line that leads to it.
func nameTrampoline(lines []x86.Line, f *find.File, trampoline string) {
	for i := range lines {
		l := &lines[i]
		if to := l.To(); l.Changed && !l.Dead && to != 0 && f.Load(to) == nil {
			l.Text += " <" + trampoline + ">"
		}
	}
}
