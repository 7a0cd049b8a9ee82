// The verdict on a source: whether it is affected, and whether all of it was looked at. It is
// computed here alone, from what was examined and from what was not, so that an empty list
// never clears anything.

package contents

import (
	"fmt"

	"vfix.dev/vfix/rewriter/find"
)

// Verdict is the result of examining a source. The zero value is Incomplete: a source that nobody
// has examined is not cleared.
type Verdict uint8

// The verdicts.
const (
	// Incomplete: no call site was found, and something that may have one was not examined.
	Incomplete Verdict = iota
	// NotAffected: everything was examined, and no call site is left uncovered.
	NotAffected
	// Affected: there are live or unknown call sites, and no fallback in the source covers them.
	Affected
)

// verdictWords are the words for people, and those of JSON.
var verdictWords = [...]struct{ text, json string }{
	Incomplete: {"INCOMPLETE", "incomplete"}, NotAffected: {"NOT AFFECTED", "not-affected"}, Affected: {"AFFECTED", "affected"},
}

func (v Verdict) String() string { return verdictWords[v].text }

// MarshalText gives the word of JSON.
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

// Verdict is the verdict on the source as it was read.
func (f *Findings) Verdict() Verdict { return verdict(f.UncoveredSites(), f) }

// Remaining is the verdict on the source as the plans leave it: after a rebuild or a patch.
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

// Complete reports whether everything in the source that may have call sites was examined; for a program,
// this includes its libraries. With call sites, no library changes the verdict.
func (f *Findings) Complete() bool {
	return f.Unread() == 0 && (f.ELFFiles > 0 || len(f.Passed) == 0) && (len(f.MissingLibraries()) == 0 || f.UncoveredSites() > 0)
}

// MissingLibraries are the names of what a program loads that was not examined.
func (f *Findings) MissingLibraries() []string {
	if f.Loads == nil {
		return nil
	}
	return f.Loads.Missing
}

// Open counts the call sites of a file that are live or unknown, as it was read, and that nobody accepted.
func (f *File) Open() int {
	n := 0
	for _, s := range f.Report.Sites {
		if _, ignored := f.Ignored[s.Offset]; !ignored && (s.Verdict == find.Unknown || s.Verdict.Patchable()) {
			n++
		}
	}
	return n
}

// IgnoredSites counts the call sites that would be open if nobody had accepted them.
func (f *Findings) IgnoredSites() int { return f.sum(func(f *File) int { return len(f.Ignored) }) }

// OpenSites counts the call sites that are live or unknown in the files as they were read.
func (f *Findings) OpenSites() int { return f.sum((*File).Open) }

// UncoveredSites counts those that no fallback in the source catches.
func (f *Findings) UncoveredSites() int { return f.sum((*File).uncovered) }

// CaughtSites counts those that the fallback in the source catches at run time, also those that can be
// patched.
func (f *Findings) CaughtSites() int { return f.OpenSites() - f.UncoveredSites() }

// UncoveredFiles counts the files that have UncoveredSites.
func (f *Findings) UncoveredFiles() int {
	return f.sum(func(f *File) int { return min(f.uncovered(), 1) })
}

func (f *File) uncovered() int {
	if f.Covered != "" {
		return 0
	}
	return f.Open()
}
