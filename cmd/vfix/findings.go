// The call sites that are findings: how many, what covers them, and the error that says so.

package main

import (
	"fmt"
	"slices"

	"vfix.dev/vfix/images"
	"vfix.dev/vfix/rewriter"
)

// openSite is a call site that is a finding, in the words of 'vfix help exit-status'.
const openSite = "live or unknown call site"

// openSites counts the call sites that are live or unknown in the files as they were read.
func openSites(f *images.Findings) int {
	n := 0
	for i := range f.Files {
		for _, s := range f.Files[i].Report.Sites {
			if s.Verdict == rewriter.Unknown || s.Verdict.Patchable() {
				n++
			}
		}
	}
	return n
}

// coveredSites counts the sites that stay and that the fallback in the image covers.
func coveredSites(f *images.Findings) int { return f.LeftOver() - f.Uncovered() }

// coverers are the parts of the fallback that cover sites, each once.
func coverers(f *images.Findings) []string {
	var all []string
	for i := range f.Files {
		if by := f.Files[i].Covered; by != "" && !slices.Contains(all, by) {
			all = append(all, by)
		}
	}
	slices.Sort(all)
	return all
}

// leftOver is the findings of a verb that patches: what it had to leave.
func leftOver(f *images.Findings) error {
	n := f.Uncovered()
	if n == 0 {
		return nil
	}
	return &findingsError{
		msg:  fmt.Sprintf("%s: %s had to be left", f.Source, count(n, openSite)),
		hint: "the table has the reasons; 'vfix scan --explain' shows the code around each",
	}
}
