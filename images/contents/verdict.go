// The verdict on a source: whether it is affected, and whether all of it was examined. It is computed only here,
// from the examined and unexamined files, so an empty list never clears anything.

package contents

import (
	"fmt"
	"strings"

	"vfix.dev/vfix/rewriter/find"
	"vfix.dev/vfix/rewriter/patch"
)

// Verdict is the result of the examination of a source, as a word of JSON.
type Verdict string

// The verdicts.
const (
	// Incomplete: no live call site was found, but something was not examined, or has a reference that cannot be
	// judged.
	Incomplete Verdict = "incomplete"
	// NotAffected: everything was examined, and the fallback covers all remaining call sites.
	NotAffected Verdict = "not-affected"
	// Affected: it has live call sites that no fallback in it covers.
	Affected Verdict = "affected"
)

// String returns the words for people.
func (v Verdict) String() string { return strings.ToUpper(strings.ReplaceAll(string(v), "-", " ")) }

// Verdict returns the verdict on the source as it was read.
func (f *Findings) Verdict() Verdict { return f.verdict(f.Uncovered().Live) }

// Remaining returns the verdict on the source after its plans: after a rebuild or a patch.
func (f *Findings) Remaining() Verdict { return f.verdict(f.Uncovered().Left) }

func (f *Findings) verdict(live int) Verdict {
	switch {
	case live > 0:
		return Affected
	case f.Complete() && f.Uncovered().Unknown == 0:
		return NotAffected
	}
	return Incomplete
}

// Complete reports whether everything in the source that may have call sites was examined and judged, including the
// libraries of a program. If live call sites were found, missing libraries and unknown references do not matter.
func (f *Findings) Complete() bool { return f.IncompleteText() == "" }

// IncompleteText explains why a verdict is incomplete; "" if it is complete.
func (f *Findings) IncompleteText() string {
	unread := 0
	for _, p := range f.Passed {
		if p.Unread {
			unread++
		}
	}
	sites, missing := f.Uncovered(), f.MissingLibraries()
	switch {
	case unread > 0:
		return plural(unread, "part") + " could not be read"
	case len(missing) > 0 && sites.Live == 0:
		return "what it loads was not examined: " + strings.Join(missing, ", ")
	case sites.Unknown > 0 && sites.Live == 0:
		return f.UnknownText()
	case f.ELFFiles > 0 || f.ChangedOnly:
		return ""
	case len(f.Passed) > 0:
		return "nothing was examined: " + f.Passed[0].Reason
	}
	return "no 64-bit x86-64 ELF file in it"
}

// UnknownText says how many references cannot be judged.
func (f *Findings) UnknownText() string {
	return plural(f.Uncovered().Unknown, "reference") + " to the vsyscall page cannot be judged"
}

func plural(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return fmt.Sprintf("%d %s", n, noun)
}

// MissingLibraries returns the names of libraries that a program loads and that were not examined.
func (f *Findings) MissingLibraries() []string {
	if f.Loads == nil {
		return nil
	}
	return f.Loads.Missing
}

// Sites are numbers of references to the vsyscall page.
type Sites struct {
	Live    int // live call sites, as the source was read
	Left    int // of these, those that the plans leave
	Unknown int // references that cannot be judged
}

func (s *Sites) add(more Sites) {
	s.Live, s.Left, s.Unknown = s.Live+more.Live, s.Left+more.Left, s.Unknown+more.Unknown
}

// Sites counts the references in the file.
func (f *File) Sites() Sites {
	s := Sites{Live: f.Report.Count(find.Live), Unknown: f.Report.Count(find.Unknown)}
	for _, p := range f.Plan.Patches {
		if p.Form == patch.Left && p.Site.Verdict == find.Live {
			s.Left++
		}
	}
	return s
}

// Sites counts the references in all files, and in archives, which no plan changes.
func (f *Findings) Sites() Sites { return f.count(true) }

// Uncovered counts the references that no fallback in the source covers.
func (f *Findings) Uncovered() Sites { return f.count(false) }

func (f *Findings) count(covered bool) (s Sites) {
	for i := range f.Files {
		if file := &f.Files[i]; covered || file.Covered == "" {
			s.add(file.Sites())
		}
	}
	for _, p := range f.Packed {
		if covered || !p.Covered {
			s.add(Sites{Live: p.Sites, Left: p.Sites})
		}
	}
	return s
}

// noteDormant notes that a file has references that are used only without a vDSO, if it may find none.
func (f *Findings) noteDormant(file *File) {
	if file.Report.Count(find.Dormant) == 0 || !file.Report.Go || file.Report.Count(find.Live) > 0 || !file.losesVDSO() {
		return
	}
	f.Notes = append(f.Notes, file.Path+": made by Go before 1.16, and setuid or with file capabilities: "+
		"it crashes without the vsyscall page if TMPDIR or LD_LIBRARY_PATH is set")
}
