// References: from the headers of a file to a verdict on each of its sites.

package find

import (
	"cmp"
	"io"
	"slices"

	"vfix.dev/vfix/rewriter/elf"
	"vfix.dev/vfix/rewriter/origin"
	"vfix.dev/vfix/rewriter/x86"
)

// References finds every reference to the vsyscall page in the file in r, which has size bytes, with a verdict on
// each. It writes nothing. It returns an error only if a read fails: a file that is not for vfix, or is damaged,
// has Report.Skipped.
//
// The fields Libc, Go, Interp, Needed and RawSignals are set only if the file has a site: no caller needs them
// otherwise, and to find them costs more than the scan.
func References(r io.ReaderAt, size int64, o Scope) (*Report, error) {
	if o.MaxExec == 0 { // otherwise only code that runs matters
		f := &elf.File{R: r, Size: uint64(max(size, 0))}
		head := f.Bytes(0, min(f.Size, elf.IdentSize))
		if f.Err() != nil {
			return nil, f.Err()
		}
		if elf.IsArchive(head) {
			return scanArchive(r, size)
		}
		if elf.IsObject(head) {
			return scanObject(r, size, newBudget())
		}
	}
	f, err := Parse(r, size)
	tangled, err := elf.AsSkip(err)
	if err != nil {
		return nil, err
	}
	if tangled != nil && tangled.Kind != elf.KindTangled {
		return &Report{Skipped: tangled}, nil
	}
	if skip := o.within(f); skip != nil {
		return &Report{Skipped: cmp.Or(tangled, skip)}, nil
	}
	var mark Mark
	if o.Marks != nil && tangled == nil {
		mark = o.Marks(f.File)
	}
	f.Roots = mark.Roots
	rep := &Report{Skipped: mark.Skip}
	if mark.Skip == nil {
		rep = scanELF(f, tangled)
	}
	if rep.Skipped == nil {
		rep.Injected, rep.Fixed = mark.Version, mark.Fix
	}
	if f.Err() != nil {
		return nil, f.Err()
	}
	return rep, nil
}

// tooMany returns why a file with too many references is skipped.
func tooMany() *Skip {
	return elf.NewSkip(elf.KindDamaged, "%d or more references to the vsyscall page, or %d constants that may be half of one", maxSites, maxCandidates)
}

// scanELF scans a file. If it is tangled, a vaddr may be in several places: the file is skipped if it does not
// have the page's address; otherwise its sites remain unpatched.
func scanELF(f *File, tangled *Skip) *Report {
	return scanCode(newCode(f, &cmp.Or(f.budget, newBudget()).sites), tangled)
}

// scanCode is scanELF with the code of the file.
func scanCode(c *code, tangled *Skip) *Report {
	f := c.f
	s := &search{f: f, code: c}
	s.run()
	rep := &Report{ExecBytes: int64(f.CodeSize()), Static: f.Static(), File: f}
	if tangled == nil {
		rep.Redirect = f.findRedirect()
		s.addWholes()
	}
	sites := distinct(s.sites)
	switch {
	case tangled != nil && (len(sites) == 0 || s.full()):
		return &Report{Skipped: tangled}
	case s.full():
		return &Report{Skipped: tooMany()}
	case tangled != nil:
		for i := range sites {
			sites[i].Verdict, sites[i].Reason = Unknown, tangled.String()
		}
		rep.Sites = sites
	case len(sites) > 0:
		rep.examine(c, sites)
	}
	return rep
}

// distinct returns the sites in vaddr order, without duplicates.
func distinct(sites []Site) []Site {
	sortSites(sites)
	return slices.CompactFunc(sites, func(a, b Site) bool { return a.Vaddr == b.Vaddr })
}

// examine gives the references their verdicts.
func (r *Report) examine(c *code, sites []Site) {
	c.locate(sites)
	holders := make([]*body, len(sites))
	kept := sites[:0]
	for _, s := range sites {
		b := c.whole(c.holder(s.Vaddr), s.Vaddr)
		// Opcodes of one or two bytes prove nothing: they may be within another instruction.
		if (s.Kind == PushImm32 || s.Kind == CmpImm32) && b == nil && c.within(s.Vaddr) {
			continue
		}
		holders[len(kept)] = b
		kept = append(kept, s)
	}
	sites = kept
	r.Go, r.RawSignals, r.Libc = origin.Go(c.f.File), origin.RawSignals(c.f.File), origin.Libc(c.f.File)
	r.Interp, r.Needed = c.f.Interp(), c.f.DynStrings(elf.DTNeeded)
	keeps := r.Go && origin.GoKeepsPage(c.f.File)
	for i, s := range sites {
		if b := holders[i]; b != nil && (s.Loads() || s.Stores()) {
			b.sites = append(b.sites, s)
		}
	}
	for i := range sites {
		judge(c, r.Go, keeps, holders[i], &sites[i])
		if sites[i].Kind == MovImm32 && sites[i].Verdict == Dormant && r.Libc == "" {
			r.Libc = "dietlibc" // an image base: see slot.go
		}
	}
	c.tables(sites)
	single(sites)
	var inner []uint64
	for i := range sites {
		inner = append(inner, c.inner(&sites[i])...)
	}
	called := c.called(inner)
	for i := range sites {
		c.finish(called, holders[i], &sites[i])
	}
	if c.exhausted() {
		for i, s := range sites {
			sites[i] = Site{Vaddr: s.Vaddr, Offset: s.Offset, Len: s.Len, Kind: s.Kind, Function: s.Function, Reg: s.Reg,
				Symbol: s.Symbol, Reason: "too much code to follow in this file"}
		}
	}
	r.Sites = sites
}

// within reports whether the bytes at vaddr are inside a known instruction, or outside of the code of their
// function although all of it is known.
func (c *code) within(vaddr uint64) bool {
	for n := uint64(1); n < x86.MaxLen; n++ {
		if b := c.holder(vaddr - n); b != nil && uint64(b.lens[vaddr-n]) > n {
			return true
		}
	}
	return false
}

// inner returns the addresses in a patched site, except the first, that may be called or jumped to.
func (c *code) inner(s *Site) (all []uint64) {
	if s.Verdict.Patchable() {
		for _, j := range c.refs.to(s.Vaddr+1, s.Vaddr+uint64(s.Len)) {
			all = append(all, j.to)
		}
	}
	return slices.Compact(all)
}

// finish sets the fields on which the patch forms depend. Known code that enters the middle of an instruction
// shows that the bytes are more than that instruction; words of data do not.
func (c *code) finish(called func(uint64) bool, b *body, s *Site) {
	s.Symbol = c.fn.names[s.Vaddr].text
	if slices.ContainsFunc(c.inner(s), called) {
		s.Verdict, s.Reason = Unknown, "code jumps to the middle of the instruction"
	}
	if !s.Verdict.Patchable() {
		return
	}
	s.Alone = c.alone(b, s)
	s.Stub = c.stub(b, s)
	s.Named = c.fn.public[s.Stub.Vaddr]
	s.Free = c.bySyscall(b, s)
}
