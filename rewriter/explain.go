// The disassembly around a site, before and after, for people who want to see what is done.

package rewriter

import (
	"bytes"
	"slices"

	"golang.org/x/arch/x86/x86asm"

	"vfix.dev/vfix/rewriter/x86"
)

const (
	// explainBefore is how far before a site a function may begin to be shown from its
	// start, explainAfter how far behind the last byte of interest the listing goes, both
	// in bytes.
	explainBefore = 64
	explainAfter  = 16
)

// Line is one instruction of a listing.
type Line struct {
	Vaddr   uint64
	Bytes   []byte
	Text    string // in AT&T syntax, as objdump writes it
	Changed bool   // not the same bytes as the same instruction on the other side
}

// Explanation is the code around one site. Both sides cover the same addresses; After is
// empty where nothing changes there.
type Explanation struct {
	Before, After []Line
}

// Explain disassembles the code around the patch, from the start of the function where
// that is near, else from the site, as it is and as it will be. A site in data has no
// listing. The error is of reading the file.
func (p *Plan) Explain(patch Patch) (Explanation, error) {
	s, f := &patch.Site, p.file
	if s.in != nil {
		f = s.in
	}
	if f == nil || s.Kind == DataWord {
		return Explanation{}, nil
	}
	fn, err := findFunctions(f, []Site{*s})
	if err != nil {
		return Explanation{}, err
	}
	start, end := s.Vaddr, s.Vaddr+uint64(s.Len)
	if at, ok := fn.starts.enclosing(start); ok && start-at <= explainBefore {
		start = at
	}
	if s.Stub.Len != 0 {
		start, end = s.Stub.Vaddr, max(end, s.Stub.Vaddr+s.Stub.Len)
	} else {
		if span, ok := siteSpan(s); ok {
			end = max(end, span.end())
		}
		end += explainAfter
	}
	off, ok := f.Offset(start, 1)
	if !ok {
		return Explanation{}, nil
	}
	before, err := f.Mem(start, end-start)
	if err != nil {
		return Explanation{}, err
	}
	after := p.patched(before, off)
	if bytes.Equal(before, after) {
		b, _ := Listing(before, before, start)
		return Explanation{Before: b}, nil
	}
	b, a := Listing(before, after, start)
	for i := range a {
		a[i].name(f, trampolineName(s, patch.Form))
	}
	return Explanation{b, a}, nil
}

// explainAll fills in the listing of each patch.
func (p *Plan) explainAll() error {
	for i := range p.Patches {
		e, err := p.Explain(p.Patches[i])
		if err != nil {
			return err
		}
		p.Patches[i].Listing = &e
	}
	return p.explainRedirect()
}

// patched returns the bytes that stand at offset off of the file with the edits applied.
func (p *Plan) patched(b []byte, off uint64) []byte {
	b = bytes.Clone(b)
	for _, e := range p.Edits {
		for i, c := range e.New {
			if at := e.Offset + uint64(i); at >= off && at-off < uint64(len(b)) {
				b[at-off] = c
			}
		}
	}
	return b
}

// Listing disassembles two versions of the code at vaddr, which are equally long. An
// instruction that the bytes do not hold whole ends the listing. What is left of an old
// instruction behind a new one is never decoded across the start of the next old one.
func Listing(before, after []byte, vaddr uint64) (b, a []Line) {
	ends := map[uint64]bool{0: true} // of the instructions before
	for i := 0; i < len(before); {
		in, ok := x86.Decode(before[i:], vaddr+uint64(i))
		if !ok {
			if len(before)-i < x86.MaxLen {
				before, after = before[:i], after[:i]
				break
			}
			in = x86.Instr{Addr: vaddr + uint64(i), Inst: x86asm.Inst{Len: 1}}
		}
		b = append(b, line(before, after, i, &in))
		i += in.Len
		ends[uint64(i)] = true
	}
	for i := 0; i < len(after); {
		in, ok := x86.Decode(after[i:], vaddr+uint64(i))
		if ok && after[i] == before[i] && !ends[uint64(i+in.Len)] {
			// A remnant: only up to where the old code goes on.
			n := i + 1
			for !ends[uint64(n)] {
				n++
			}
			in, ok = x86.Decode(after[i:n], vaddr+uint64(i))
		}
		if !ok {
			in = x86.Instr{Addr: vaddr + uint64(i), Inst: x86asm.Inst{Len: 1}}
		}
		l := line(after, before, i, &in)
		l.Changed = l.Changed || !ends[uint64(i)]
		a = append(a, l)
		i += in.Len
	}
	return b, a
}

// line makes a line of the instruction in, which is at b[i]; other is the other version.
func line(b, other []byte, i int, in *x86.Instr) Line {
	raw := b[i : i+in.Len]
	return Line{Vaddr: in.Addr, Bytes: bytes.Clone(raw), Text: in.Text(raw), Changed: !bytes.Equal(raw, other[i:i+in.Len])}
}

// lastImm returns the immediate that ends the instruction.
func lastImm(in *x86.Instr) (x86asm.Imm, bool) {
	last := slices.Index(in.Args[:], nil) - 1
	if last < 0 {
		return 0, false
	}
	imm, ok := in.Args[last].(x86asm.Imm)
	return imm, ok
}

// name adds the trampoline's name to a changed line that goes to it. The file before did not
// have it.
func (l *Line) name(f *file, trampoline string) {
	in, ok := x86.Decode(l.Bytes, l.Vaddr)
	if !ok || !l.Changed {
		return
	}
	target := in.Target
	if in.Op == x86asm.LEA {
		target, _ = in.MemVaddr()
	}
	if imm, ok := lastImm(&in); ok && target == 0 {
		target = uint64(imm) // the imm form
	}
	if target != 0 && f.Load(target) == nil {
		l.Text += " <" + trampoline + ">"
	}
}
