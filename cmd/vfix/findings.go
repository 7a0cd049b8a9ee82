// The call sites that are findings: how many, what covers them, and the error that says so.

package main

import (
	"fmt"
	"strings"

	"vfix.dev/vfix/cmd/vfix/screen"
	"vfix.dev/vfix/cmd/vfix/tables"
	"vfix.dev/vfix/images/contents"
	"vfix.dev/vfix/rewriter"
)

// openSites counts the call sites that are live or unknown in the files as they were read.
func openSites(f *contents.Findings) int {
	n := 0
	for i := range f.Files {
		n += openIn(&f.Files[i])
	}
	return n
}

// openIn counts those of one file.
func openIn(f *contents.File) int {
	n := 0
	for _, s := range f.Report.Sites {
		if s.Verdict == rewriter.Unknown || s.Verdict.Patchable() {
			n++
		}
	}
	return n
}

// uncoveredSites counts the call sites that are findings of a scan.
func uncoveredSites(f *contents.Findings) int { return openSites(f) - caughtSites(f) }

// uncoveredInAll counts them in the images for all levels of x86-64 that a source has.
func uncoveredInAll(f *contents.Findings) int {
	n := 0
	for _, l := range f.All() {
		n += uncoveredSites(l)
	}
	return n
}

// caughtSites counts the call sites, as they were read, that the fallback in the image
// catches; those that can be patched too.
func caughtSites(f *contents.Findings) int {
	n := 0
	for i := range f.Files {
		if f.Files[i].Covered != "" {
			n += openIn(&f.Files[i])
		}
	}
	return n
}

// incomplete is the error of a verb that could not read all of a source: it may have call
// sites that nobody has seen.
func incomplete(f *contents.Findings) error {
	switch n := f.Unread(); {
	case n > 0:
		return &incompleteError{
			msg:  fmt.Sprintf("%s: incomplete: %s could not be read", f.Source, screen.Count(n, "path")),
			hint: unreadHint(f),
		}
	case f.ELFFiles == 0 && len(f.Passed) > 0:
		return &incompleteError{
			msg:  fmt.Sprintf("%s: nothing examined: %s", f.Source, f.Passed[0].Reason),
			hint: "name an ELF file, a directory, an archive or an image: see 'vfix help sources'",
		}
	}
	return nil
}

// incompleteError is the error of a result that is printed, and not of the whole source.
type incompleteError struct{ msg, hint string }

func (e *incompleteError) Error() string { return e.msg }
func (e *incompleteError) Hint() string  { return e.hint }

// notExamined is the finding of a verb that makes something of an image: what it could not read.
func notExamined(f *contents.Findings) error {
	n, first := 0, ""
	for _, l := range f.All() {
		for _, p := range l.Passed {
			if p.Unread && n == 0 {
				first = p.Path + ": " + p.Reason
			}
		}
		n += l.Unread()
	}
	if n == 0 {
		return nil
	}
	return &findingsError{msg: fmt.Sprintf("%s: %s could not be read: %s", f.Source, screen.Count(n, "path"), first), hint: unreadHint(f)}
}

// unreadHint is what helps against the reasons.
func unreadHint(f *contents.Findings) string {
	for _, l := range f.All() {
		for _, p := range l.Passed {
			if p.Unread && strings.Contains(p.Reason, "permission denied") {
				return "run vfix as root, or as a user who can read them"
			}
		}
	}
	return "the reasons are under NOT EXAMINED, in JSON under not_examined; such a file may call the vsyscall page"
}

// nothingToPatch says that there is no call site, in what there is or in what could be read.
func nothingToPatch(f *contents.Findings, asked []rewriter.Repair) string {
	what := "no call site to patch"
	if notExamined(f) != nil {
		what = "no call site in what could be read"
	}
	if len(asked) > 0 {
		what += ", and no file that --fix changes"
	}
	return "nothing to do: " + what
}

// leftOver is the findings of a verb that patches: what it had to leave.
func leftOver(f *contents.Findings) error {
	n := 0
	for _, l := range f.All() {
		n += l.Uncovered()
	}
	if n == 0 {
		return nil
	}
	return &findingsError{
		msg:  fmt.Sprintf("%s: %s could not be patched", f.Source, screen.Count(n, tables.OpenSite)),
		hint: "the table gives the reasons; 'vfix scan --explain' shows the code around each of them",
	}
}
