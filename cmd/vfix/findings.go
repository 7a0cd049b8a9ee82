// Findings as text: the verdict of a source, its files, and what could not be patched or examined.

package main

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"vfix.dev/vfix/cmd/vfix/screen"
	"vfix.dev/vfix/images/contents"
	"vfix.dev/vfix/internal/addedfiles"
	"vfix.dev/vfix/rewriter/find"
	"vfix.dev/vfix/rewriter/patch"
)

// openSite is a call site that is a finding, in the words of 'vfix help exit-status'.
const openSite = "live call site"

// writeVerdict writes the verdict on a source, in one line.
func writeVerdict(s screen.Stream, typed string, f *contents.Findings) {
	v, paint, text := f.Verdict(), s.Paint.Green, about(f)
	why := screen.Printable(f.IncompleteText())
	switch {
	case v == contents.Affected:
		paint = s.Paint.Yellow
		sites, files, fixable := countSites(f)
		text = fmt.Sprintf(": %s in %s; vfix can fix %s", screen.Count(sites, "call site"), screen.Count(files, "file"), howMany(fixable, sites))
		if why != "" {
			text += "; " + contents.Incomplete.String() + ": " + why
		}
	case v == contents.Incomplete:
		paint, text = s.Paint.Red, ": "+why
	case f.Sites().Live > 0:
		text = fmt.Sprintf(": %s, caught at run time by the fallback", screen.Count(f.Sites().Live, "call site"))
	}
	s.Headline(typed, v.String(), paint, text)
}

// about says what a verdict covers, if that is not a whole system.
func about(f *contents.Findings) string {
	if f.Library {
		return ": this library alone; a program that loads it loads others as well"
	}
	l := f.Loads
	if l == nil || len(l.Examined) == 0 {
		return ""
	}
	count := screen.Count(len(l.Examined), "file")
	if isDir(f) {
		return fmt.Sprintf(": its programs and the %s that they need in %s", count, l.Root)
	}
	return fmt.Sprintf(": the program and the %s that it needs in %s; what it opens at run time (dlopen) is not known", count, l.Root)
}

// countSites counts the call sites that are findings or that vfix patches, their files, and those that it patches. Sites
// that the fallback in the source covers do not count.
func countSites(f *contents.Findings) (sites, files, patched int) {
	for i := range f.Files {
		file := &f.Files[i]
		if file.Covered != "" {
			continue
		}
		changed := patchedIn(file)
		open := changed + file.Sites().Left
		sites, files, patched = sites+open, files+min(open, 1), patched+changed
	}
	for _, p := range f.Packed {
		if !p.Covered {
			sites, files = sites+p.Sites, files+1
		}
	}
	return sites, files, patched
}

// howMany says how many of all there are.
func howMany(n, all int) string {
	switch {
	case n == 0:
		return "none of them"
	case n < all:
		return fmt.Sprintf("%d of them", n)
	case all == 1:
		return "it"
	}
	return "all of them"
}

// writePatched says how many call sites a verb patched, and in which files; of a dry run, what it would do.
func writePatched(s screen.Stream, typed string, dryRun bool, f *contents.Findings) {
	would := ""
	if dryRun {
		would = "would be "
	}
	sites, files := 0, 0
	for i := range f.Files {
		n := patchedIn(&f.Files[i])
		sites, files = sites+n, files+min(n, 1)
	}
	fixed := fixedIn(f)
	switch {
	case sites > 0:
		s.Headline(typed, screen.Count(sites, "call site")+" "+would+"patched", s.Paint.Green, " in "+screen.Count(files, "file"))
	case len(fixed) > 0:
	case f.Uncovered().Left > 0:
		s.Headline(typed, screen.Count(f.Uncovered().Left, openSite), s.Paint.Yellow, ", of which vfix can patch none")
	case !f.Complete():
		s.Headline(typed, "no call site in what was examined", s.Paint.Yellow, "")
	default:
		s.Headline(typed, "no call site of the vsyscall page", s.Paint.Green, "")
	}
	for _, file := range fixed {
		fix := file.Plan.Redirect.Fix
		s.Print("", nil, fmt.Sprintf("%s %sfixed (%s): %s", file.Path, would, fix, addedfiles.FixOf(fix).Does))
	}
	writeFiles(s, f)
}

// patched prints the same on stderr, if there is more to say about a source than that it has no call site.
func (o *output) patched(typed string, dryRun bool, f *contents.Findings) {
	if !o.Quiet && !o.json && (len(f.ToPatch()) > 0 || len(f.Passed) > 0 || f.Sites().Live > 0) {
		writePatched(o.Err, typed, dryRun, f)
	}
}

// writeFiles lists the files with call sites, what is left in them, and what was not examined.
func writeFiles(s screen.Stream, f *contents.Findings) {
	var rows [][]string
	var left, packed, passed []string
	for i := range f.Files {
		file := &f.Files[i]
		if n := patchedIn(file); n > 0 {
			rows = append(rows, []string{fmt.Sprint(n), cmp.Or(file.Report.Libc, "-"), fileName(file)})
		}
		left = append(left, leftIn(file)...)
	}
	if len(rows) > 0 {
		fmt.Fprintln(s)
		s.FewRows([]string{"SITES", "LIBC", "FILE"}, rows)
	}
	for _, p := range f.Packed {
		packed = append(packed, fmt.Sprintf("%s: %s: %s", p.Path, p.Member, screen.Count(p.Sites, "call site")))
	}
	for _, p := range f.Passed {
		passed = append(passed, p.Path+": "+p.Reason)
	}
	s.List("not patched: ", left)
	s.List("in an archive, not patched: ", packed)
	s.List("not examined: ", passed)
	s.List("note: ", f.Notes)
}

// patchedIn counts the call sites of a file that are patched.
func patchedIn(f *contents.File) (n int) {
	for _, p := range f.Plan.Patches {
		if p.Form != patch.Left {
			n++
		}
	}
	return n
}

// leftIn has a line for each live or unknown site of a file that is not patched.
func leftIn(f *contents.File) (lines []string) {
	for _, p := range f.Plan.LeftOver() {
		line := fmt.Sprintf("%s: %v at %#x, %v: %s", fileName(f), p.Site.Function, p.Site.Vaddr, p.Site.Verdict, cmp.Or(p.Reason.String(), p.Site.Reason.String()))
		if f.Covered != "" {
			line += "; caught at run time by " + f.Covered
		}
		lines = append(lines, line)
	}
	return lines
}

func fileName(f *contents.File) string {
	if len(f.Links) == 0 {
		return f.Path
	}
	return fmt.Sprintf("%s (and %s)", f.Path, screen.Count(len(f.Links), "hard link"))
}

// fixedIn are the files that a plan fixes.
func fixedIn(f *contents.Findings) []contents.File {
	return slices.DeleteFunc(slices.Clone(f.Files), func(file contents.File) bool { return !file.Plan.Redirected() })
}

// warnings prints what a reader must know about a source and its files, and if they are patched what no longer works with
// them.
func (o *output) warnings(f *contents.Findings, patched bool) {
	for _, text := range f.Warnings {
		o.Warn("%s", text)
	}
	for i := range f.Files {
		all := f.Files[i].Plan.Warnings
		if patched {
			all = slices.Concat(all, f.Files[i].Plan.Consequences)
		}
		for _, text := range all {
			o.Warn("%s: %s", f.Files[i].Path, text)
		}
	}
}

// incomplete is the finding that a source, or several as typed, was not examined whole: it may have call sites that were
// not found.
func incomplete(f *contents.Findings, typed ...string) error {
	text := f.IncompleteText()
	if text == "" {
		return nil
	}
	hint := "if it holds archives or packages, unpack them first; see 'vfix help sources'"
	switch unread := slices.IndexFunc(f.Passed, func(p contents.Passed) bool { return p.Unread }); {
	case unread >= 0:
		p := &f.Passed[unread]
		text += ": " + p.Path + ": " + p.Reason
		hint = "'vfix scan --format json' lists them under not_examined; such a file may call the vsyscall page"
		if p.Denied {
			hint = "run vfix as root, or as a user who can read them"
		}
	case len(f.Passed) == 1 && f.Passed[0].Reason == contents.Script:
		hint = "scan the programs that it starts; 'vfix run' runs it, and them, without the page"
	case len(f.MissingLibraries()) > 0 && f.Loads.Root == "": // of a tarball
		hint = "unpack it on the machine that runs it: 'vfix scan DIR' also examines the libraries that its programs load from there"
	case len(f.MissingLibraries()) > 0:
		hint = "name the root filesystem that it runs in: 'vfix scan --root DIR " + quotePaths(typed) + "', where / is this machine"
	case f.Uncovered().Unknown > 0:
		hint = seeCode(typed)
	}
	return incompletef(hint, "%s: incomplete: %s", strings.Join(typed, " "), text)
}

// seeCode is the hint for call sites that remain.
func seeCode(typed []string) string {
	return "run " + quoted(explain(typed...)) + " to see the code around them"
}

// remaining is what a verb that patches had to leave: call sites, and what it could not examine.
func remaining(f *contents.Findings, typed ...string) error {
	err := incomplete(f, typed...)
	switch n := f.Uncovered().Left; {
	case n > 0:
		return errors.Join(err, finding(seeCode(typed), "%s: %s could not be patched", strings.Join(typed, " "), screen.Count(n, openSite)))
	case err == nil && f.Uncovered().Unknown > 0:
		return incompletef(seeCode(typed), "%s: incomplete: %s", strings.Join(typed, " "), f.UnknownText())
	}
	return err
}

// nothingToPatch says that there is no call site, in all of the source or in the part that could be read.
func nothingToPatch(f *contents.Findings, requested []find.Fix) string {
	what := "no call site to patch"
	if !f.Complete() {
		what = "no call site in what was examined"
	}
	if len(requested) > 0 {
		what += ", and no file that --fix changes"
	}
	return "nothing to do: " + what
}
