// From the headers of a file to a verdict on each of its references.

package find

import (
	"cmp"
	"io"
	"slices"

	"vfix.dev/vfix/rewriter/elf"
)

// References finds the references to the vsyscall page in the file in r, which has size bytes, with a verdict on
// each. It writes nothing. It returns an error only if a read fails: a file that is not for vfix, or is damaged,
// has Report.Skipped.
//
// The fields Libc, Go, Interp and RawSignals are set only if the file has a site.
func References(r io.ReaderAt, size int64, o Scope) (*Report, error) {
	f, err := Parse(r, size)
	skip, err := elf.AsSkip(err)
	if skip != nil || err != nil {
		return &Report{Skipped: skip}, err
	}
	skip = o.within(f)
	var mark Mark
	if skip == nil && o.Marks != nil {
		mark = o.Marks(f.File)
		skip = mark.Skip
	}
	rep := &Report{Skipped: skip}
	if skip == nil {
		rep = scan(f)
		rep.Injected, rep.Fixed = mark.Version, mark.Fix
	}
	if f.Err() != nil {
		return nil, f.Err()
	}
	return rep, nil
}

// scan finds the references of a file and judges them.
func scan(f *File) *Report {
	rep := &Report{ExecBytes: int64(f.CodeSize()), Static: f.Static(), File: f, Redirect: f.findRedirect(), Packed: f.PackedBy()}
	sites := search(f)
	slices.SortFunc(sites, func(a, b Site) int { return cmp.Compare(a.Vaddr, b.Vaddr) })
	sites = slices.CompactFunc(sites, func(a, b Site) bool { return a.Vaddr == b.Vaddr })
	switch len(sites) {
	case 0:
		return rep
	case maxSites:
		return &Report{Skipped: elf.NewSkip(elf.KindDamaged, "%d or more references to the vsyscall page", maxSites)}
	}
	j := &judge{code: code{f: f}, fn: findFunctions(f, sites), goMade: madeByGo(f.File)}
	rep.Go, rep.RawSignals, rep.Libc = j.goMade, rawSignals(f.File), libcOf(f.File)
	rep.Interp = f.Interp()
	compares := slices.ContainsFunc(sites, func(s Site) bool { return s.Kind == CmpImm32 })
	j.valgrind = compares && len(f.FindText(valgrindName)) > 0
	for _, s := range sites {
		s.Symbol = j.fn.names[s.Vaddr].text
		if j.site(&s) {
			rep.Sites = append(rep.Sites, s)
		}
	}
	return rep
}

// valgrindName is the environment variable of valgrind's launcher, which all of its tools have (m_main.c).
const valgrindName = "VALGRIND_LAUNCHER"
