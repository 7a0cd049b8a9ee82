// The verdict on a source: whether it is affected, and whether all of it was examined. It is computed only here,
// from the examined and unexamined files, so an empty list never clears anything.

package contents

import (
	"fmt"
	"slices"
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
func (f *Findings) Verdict() Verdict { return f.verdict(f.UncoveredSites()) }

// Remaining returns the verdict on the source after its plans: after a rebuild or a patch.
func (f *Findings) Remaining() Verdict { return f.verdict(f.Uncovered()) }

func (f *Findings) verdict(live int) Verdict {
	switch {
	case live > 0:
		return Affected
	case f.Complete() && f.UnknownSites() == 0:
		return NotAffected
	}
	return Incomplete
}

// Complete reports whether everything in the source that may have call sites was examined and judged, including the
// libraries of a program. If live call sites were found, missing libraries and unknown references do not matter.
func (f *Findings) Complete() bool { return f.IncompleteText() == "" }

// IncompleteText explains why a verdict is incomplete; "" if it is complete.
func (f *Findings) IncompleteText() string {
	missing, unread := f.MissingLibraries(), f.UnreadText()
	switch affected := f.UncoveredSites() > 0; {
	case unread != "":
		return unread
	case len(missing) > 0 && !affected:
		return "what it loads was not examined: " + strings.Join(missing, ", ")
	case f.UnknownSites() > 0 && !affected:
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
	return plural(f.UnknownSites(), "reference") + " to the vsyscall page cannot be judged"
}

// UnreadText says how many files, directories and layers of a source could not be read; it is "" if all were read.
func (f *Findings) UnreadText() string {
	unread := 0
	for _, p := range f.Passed {
		if p.Unread {
			unread++
		}
	}
	if unread == 0 {
		return ""
	}
	return plural(unread, "part") + " could not be read"
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

// Open returns the number of live call sites of a file as it was read.
func (f *File) Open() int { return f.Report.Count(find.Live) }

// Unknown returns the number of references of a file that cannot be judged.
func (f *File) Unknown() int { return f.Report.Count(find.Unknown) }

// LeftOver returns the number of live sites that the file's plan leaves.
func (f *File) LeftOver() (n int) {
	for _, p := range f.Plan.Patches {
		if p.Form == patch.Left && p.Site.Verdict == find.Live {
			n++
		}
	}
	return n
}

// live adds up the live sites of files, counted by of, and of archives: all, or those that no fallback in the source
// covers.
func (f *Findings) live(all bool, of func(*File) int) (n int) {
	for i := range f.Files {
		if file := &f.Files[i]; all || file.Covered == "" {
			n += of(file)
		}
	}
	for _, p := range f.Packed {
		if all || !p.Covered {
			n += p.Sites
		}
	}
	return n
}

// OpenSites returns the number of live call sites in the source as it was read.
func (f *Findings) OpenSites() int { return f.live(true, (*File).Open) }

// UncoveredSites returns the number of open call sites that no fallback in the source covers.
func (f *Findings) UncoveredSites() int { return f.live(false, (*File).Open) }

// CaughtSites returns the number of open call sites that the fallback in the source covers, including those that
// can be patched.
func (f *Findings) CaughtSites() int { return f.OpenSites() - f.UncoveredSites() }

// LeftOver returns the number of live sites that remain after the plans.
func (f *Findings) LeftOver() int { return f.live(true, (*File).LeftOver) }

// Uncovered returns the number of live sites that remain without a fallback in the source.
func (f *Findings) Uncovered() int { return f.live(false, (*File).LeftOver) }

// UnknownSites returns the number of references that cannot be judged and that no fallback covers.
func (f *Findings) UnknownSites() (n int) {
	for i := range f.Files {
		if f.Files[i].Covered == "" {
			n += f.Files[i].Unknown()
		}
	}
	return n
}

// Affected reports whether a patch would change any file.
func (f *Findings) Affected() bool {
	return slices.ContainsFunc(f.Files, func(f File) bool { return !f.Plan.Empty() })
}

// noteDormant notes that a file has references that are used only without a vDSO, if it may find none.
func (f *Findings) noteDormant(file *File) {
	if file.Report.Count(find.Dormant) == 0 || !file.Report.Go || file.Open() > 0 || !file.losesVDSO() {
		return
	}
	f.Notes = append(f.Notes, file.Path+": made by Go before 1.16, and setuid or with file capabilities: "+
		"it crashes without the vsyscall page if TMPDIR or LD_LIBRARY_PATH is set")
}
