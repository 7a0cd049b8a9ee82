// From the headers of a file to a verdict on each of its references.

package find

import (
	"cmp"
	"slices"

	"vfix.dev/vfix/rewriter/elf"
)

// Scan finds the references to the vsyscall page in the file, with a verdict on each. A file with too many has
// Report.Skipped. f.Err must be checked before the report is used.
//
// The fields Libc, Go, Interp and RawSignals are set only if the file has a site.
func (f *File) Scan() *Report {
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
