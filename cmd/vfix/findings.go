// Findings as text: the verdict of a source, its files, and what could not be patched or examined.

package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"vfix.dev/vfix/cmd/vfix/screen"
	"vfix.dev/vfix/images"
	"vfix.dev/vfix/images/contents"
	"vfix.dev/vfix/images/source"
	"vfix.dev/vfix/internal/addedfiles"
	"vfix.dev/vfix/rewriter/find"
	"vfix.dev/vfix/rewriter/patch"
)

// openSite is a call site that is a finding, in the words of 'vfix help exit-status'.
const openSite = "live call site"

// few is how many lines of a kind are printed; of more, the first ones and their number.
const few = 10

// did is what a verb did with call sites or a file, such as "patched"; of a dry run, what it would do.
func did(dryRun bool, what string) string {
	if dryRun {
		return "would be " + what
	}
	return what
}

// writePatched says how many call sites a verb patched, and in which files.
func writePatched(w io.Writer, s screen.Stream, typed string, dryRun bool, f *contents.Findings) {
	sites, files := 0, 0
	for i := range f.Files {
		n := patchedIn(&f.Files[i])
		sites, files = sites+n, files+min(n, 1)
	}
	fixed := fixedIn(f)
	switch {
	case sites > 0:
		s.Headline(w, typed, screen.Count(sites, "call site")+" "+did(dryRun, "patched"), s.Paint.Green, " in "+screen.Count(files, "file"))
	case len(fixed) > 0:
	case f.Unread() > 0:
		s.Headline(w, typed, "no call site in what was examined", s.Paint.Yellow, "")
	default:
		s.Headline(w, typed, "no call site of the vsyscall page", s.Paint.Green, "")
	}
	for _, r := range fixed {
		s.Write(w, "", 0, fmt.Sprintf("%s %s (%s): %s", r.Path, did(dryRun, "fixed"), r.Fix, addedfiles.FixOf(r.Fix).Does))
	}
	writeFiles(w, s, f)
}

// writeFiles lists the files with call sites, what is left in them, and what was not examined.
func writeFiles(w io.Writer, s screen.Stream, f *contents.Findings) {
	t := screen.Table{Head: []string{"SITES", "PATCH", "LIBC", "FILE"}, Most: few}
	for i := range f.Files {
		file := &f.Files[i]
		if n := patchedIn(file); n > 0 {
			t.Add([]string{fmt.Sprint(n), formsIn(file), screen.OrDash(file.Report.Libc), fileName(file)})
		}
	}
	if !t.Empty() {
		fmt.Fprintln(w)
		t.Write(w, s)
	}
	var left []string
	for i := range f.Files {
		left = append(left, leftIn(&f.Files[i])...)
	}
	writeLines(w, s, "not patched: ", left)
	var packed []string
	for _, p := range f.Packed {
		packed = append(packed, fmt.Sprintf("%s: %s: %s", p.Path, p.Member, screen.Count(p.Sites, "call site")))
	}
	writeLines(w, s, "in an archive, not patched: ", packed)
	var passed []string
	for _, p := range f.Passed {
		passed = append(passed, p.Name()+": "+p.Reason)
	}
	writeLines(w, s, "not examined: ", passed)
	writeLines(w, s, "note: ", f.Notes)
}

// writeLines writes few lines behind a label, and how many more there are.
func writeLines(w io.Writer, s screen.Stream, label string, lines []string) {
	for _, line := range lines[:min(len(lines), few)] {
		s.Write(w, label, len(screen.Gap), line)
	}
	if n := len(lines) - few; n > 0 {
		fmt.Fprintf(w, "%s%d more; --format json lists all\n", label, n)
	}
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

// formsIn says how many call sites of a file are patched in which form.
func formsIn(f *contents.File) string {
	n := map[patch.Form]int{}
	for _, p := range f.Plan.Patches {
		n[p.Form]++
	}
	var words []string
	for _, form := range patch.Forms {
		if n[form] > 0 {
			words = append(words, fmt.Sprintf("%d %s", n[form], form))
		}
	}
	return strings.Join(words, ", ")
}

// leftIn has a line for each live or unknown site of a file that is not patched.
func leftIn(f *contents.File) (lines []string) {
	for i := range f.Plan.Patches {
		p := &f.Plan.Patches[i]
		if p.Form != patch.Left || !p.Site.Verdict.Finding() {
			continue
		}
		line := fmt.Sprintf("%s: %v at %#x, %v: %s", fileName(f), p.Site.Function, p.Site.Vaddr, p.Site.Verdict, whyLeft(p))
		if f.Covered != "" {
			line += "; caught at run time by " + f.Covered
		}
		lines = append(lines, line)
	}
	return lines
}

// whyLeft is the reason for leaving a site: the plan's, else the verdict's.
func whyLeft(p *patch.Patch) string { return cmp.Or(p.Reason.String(), p.Site.Reason.String()) }

func fileName(f *contents.File) string {
	if len(f.Links) == 0 {
		return f.Path
	}
	return fmt.Sprintf("%s (and %s)", f.Path, screen.Count(len(f.Links), "hard link"))
}

// coverers are the parts of the fallback that cover sites, each once.
func coverers(f *contents.Findings) string {
	var all []string
	for i := range f.Files {
		if by := f.Files[i].Covered; by != "" && !slices.Contains(all, by) {
			all = append(all, by)
		}
	}
	slices.Sort(all)
	return strings.Join(all, " and ")
}

// fixedIn are the files that a plan fixes, as file and fix.
func fixedIn(f *contents.Findings) (all []images.Fixed) {
	for i := range f.Files {
		if p := f.Files[i].Plan; p.Redirected() {
			all = append(all, images.Fixed{Path: f.Files[i].Path, Fix: p.Redirect.Fix})
		}
	}
	return all
}

// writeVerdict writes the verdict on a source, in one line; on a terminal it wraps.
func writeVerdict(w io.Writer, s screen.Stream, typed string, f *contents.Findings) {
	v, paint, text := f.Verdict(), s.Paint.Green, about(f)
	why := screen.Printable(f.IncompleteText())
	switch {
	case v == contents.Affected:
		paint = s.Paint.Yellow
		sites, files, fixable := countSites(f)
		text = fmt.Sprintf(": %s in %s; vfix can fix %s", screen.Count(sites, "call site"), screen.Count(files, "file"), fixableText(fixable, sites))
		if why != "" {
			text += "; " + contents.Incomplete.String() + ": " + why
		}
	case v == contents.Incomplete:
		paint, text = s.Paint.Red, ": "+why
	case f.CaughtSites() > 0:
		text = fmt.Sprintf(": %s, caught at run time by %s", screen.Count(f.CaughtSites(), "call site"), coverers(f))
	}
	s.Headline(w, typed, v.String(), paint, text)
}

// about says what a verdict covers, if that is not a whole system.
func about(f *contents.Findings) string {
	if f.Library {
		return ": this library alone; a program that loads it loads others as well"
	}
	l := f.Loads
	if l == nil {
		return ""
	}
	what := "the program and the %s that it needs"
	if strings.HasPrefix(f.Source, string(source.Dir)+":") {
		what = "its programs and the %s that they need"
	}
	text := fmt.Sprintf(": "+what+" in %s", screen.Count(len(l.Examined), "file"), l.Root)
	if len(l.Opens) > 0 {
		text += "; what is opened at run time (dlopen) is not known"
	}
	return text
}

// countSites counts the call sites that are findings or that vfix patches, their files, and those that it patches. Sites
// that the fallback in the source covers do not count.
func countSites(f *contents.Findings) (sites, files, patched int) {
	for i := range f.Files {
		file := &f.Files[i]
		if file.Covered != "" {
			continue
		}
		before := sites
		for _, p := range file.Plan.Patches {
			if p.Form != patch.Left {
				patched++
			}
			if p.Form != patch.Left || p.Site.Verdict == find.Live {
				sites++
			}
		}
		files += min(sites-before, 1)
	}
	for _, p := range f.Packed {
		if !p.Covered {
			sites, files = sites+p.Sites, files+1
		}
	}
	return sites, files, patched
}

// fixableText says how many of the call sites vfix can patch.
func fixableText(patched, sites int) string {
	switch {
	case patched == 0:
		return "none of them"
	case patched < sites:
		return fmt.Sprintf("%d of them", patched)
	case sites == 1:
		return "it"
	}
	return "all of them"
}

// warnings prints what a reader must know about a source and its files.
func (o *output) warnings(f *contents.Findings) {
	for _, text := range f.Warnings {
		o.Warn("%s", text)
	}
	for i := range f.Files {
		for _, text := range f.Files[i].Plan.Warnings {
			o.Warn("%s: %s", f.Files[i].Path, text)
		}
	}
}

// consequences prints what no longer works with patched files.
func (o *output) consequences(f *contents.Findings) {
	for i := range f.Files {
		for _, text := range f.Files[i].Plan.Consequences {
			o.Warn("%s: %s", f.Files[i].Path, text)
		}
	}
}
