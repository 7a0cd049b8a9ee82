// The verdict on a source: whether it is affected, and whether all of it was examined. It is computed only here,
// from the examined and unexamined files, so an empty list never clears anything.

package contents

import (
	"fmt"
)

// Verdict is the result of the examination of a source. The zero value is Incomplete: an unexamined source is not
// cleared.
type Verdict uint8

// The verdicts.
const (
	// Incomplete: no call site was found, but something that may have one was not examined.
	Incomplete Verdict = iota
	// NotAffected: everything was examined, and the fallback covers all remaining call sites.
	NotAffected
	// Affected: it has live or unknown call sites that no fallback in it covers.
	Affected
)

// verdictWords are the words in text and in JSON.
var verdictWords = [...]struct{ text, json string }{
	Incomplete: {"INCOMPLETE", "incomplete"}, NotAffected: {"NOT AFFECTED", "not-affected"}, Affected: {"AFFECTED", "affected"},
}

func (v Verdict) String() string { return verdictWords[v].text }

// MarshalText returns the word for JSON.
func (v Verdict) MarshalText() ([]byte, error) { return []byte(verdictWords[v].json), nil }

// UnmarshalText reads the word of JSON.
func (v *Verdict) UnmarshalText(b []byte) error {
	for i, w := range verdictWords {
		if w.json == string(b) {
			*v = Verdict(i)
			return nil
		}
	}
	return fmt.Errorf("%q is not a verdict", b)
}

// Verdict returns the verdict on the source as it was read.
func (f *Findings) Verdict() Verdict { return verdict(f.UncoveredSites(), f) }

// Remaining returns the verdict on the source after its plans: after a rebuild or a patch.
func (f *Findings) Remaining() Verdict { return verdict(f.Uncovered(), f) }

func verdict(open int, f *Findings) Verdict {
	switch {
	case open > 0:
		return Affected
	case f.Complete():
		return NotAffected
	}
	return Incomplete
}

// Complete reports whether everything in the source that may have call sites was examined, including the libraries
// of a program. If call sites were found, missing libraries do not change the verdict.
func (f *Findings) Complete() bool {
	return f.Unread() == 0 && (f.ELFFiles > 0 || len(f.Passed) == 0) && (len(f.MissingLibraries()) == 0 || f.UncoveredSites() > 0)
}

// MissingLibraries returns the names of libraries that a program loads and that were not examined.
func (f *Findings) MissingLibraries() []string {
	if f.Loads == nil {
		return nil
	}
	return f.Loads.Missing
}

// Open returns the number of live or unknown call sites of a file as it was read.
func (f *File) Open() int {
	n := 0
	for _, s := range f.Report.Sites {
		if s.Verdict.Finding() {
			n++
		}
	}
	return n
}

// OpenSites returns the number of live or unknown call sites in the files as they were read.
func (f *Findings) OpenSites() int { return f.sum((*File).Open) }

// UncoveredSites returns the number of open call sites that no fallback in the source covers.
func (f *Findings) UncoveredSites() int { return f.sum((*File).uncovered) }

// CaughtSites returns the number of open call sites that the fallback in the source covers, including those that
// can be patched.
func (f *Findings) CaughtSites() int { return f.OpenSites() - f.UncoveredSites() }

// UncoveredFiles returns the number of files with UncoveredSites.
func (f *Findings) UncoveredFiles() int {
	return f.sum(func(f *File) int { return min(f.uncovered(), 1) })
}

func (f *File) uncovered() int {
	if f.Covered != "" {
		return 0
	}
	return f.Open()
}
