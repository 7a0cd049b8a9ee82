// Package tables writes what was found in a source as tables and sums.
package tables

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"vfix.dev/vfix/cmd/vfix/screen"
	"vfix.dev/vfix/images"
	"vfix.dev/vfix/images/contents"
	"vfix.dev/vfix/internal/fixes"
	"vfix.dev/vfix/rewriter/find"
	"vfix.dev/vfix/rewriter/patch"
)

// Deed is what a verb did with the call sites in a table.
type Deed struct{ patch, fix string }

var (
	Scanned  = Deed{"can be patched", "can be fixed"}
	Planned  = Deed{"would be patched", "would be fixed"}
	Patched  = Deed{"patched", "fixed"}
	Verified = Deed{"not patched", "not fixed"}
)

// Patching is the deed of a verb that patches; with dryRun it only plans.
func Patching(dryRun bool) Deed {
	if dryRun {
		return Planned
	}
	return Patched
}

// Write writes the tables of one source: what is patched and how, what is left
// and why, what could not be examined, and the sums.
func Write(w io.Writer, s screen.Stream, d Deed, f *contents.Findings) {
	fmt.Fprintln(w, s.Paint.Bold(screen.Printable(f.Name())))
	if f.Digest != "" {
		fmt.Fprintln(w, s.Paint.Dim(screen.Printable(f.Digest)))
	}
	for _, t := range []*screen.Table{patchGrid(f), leftGrid(f), passedGrid(f)} {
		if !t.Empty() {
			fmt.Fprintln(w)
			t.Write(w, s)
		}
	}
	fmt.Fprintln(w)
	for _, line := range sums(s.Paint, d, f) {
		s.Say(w, line)
	}
}

// patchGrid is one row for each file, function and form.
func patchGrid(f *contents.Findings) *screen.Table {
	t := &screen.Table{Head: []string{"FILE", "LAYER", "LIBC", "FUNCTION", "SITES", "PATCH"}, Right: 4}
	for i := range f.Files {
		file := &f.Files[i]
		first := []string{fileName(file), layerName(file), screen.OrDash(file.Report.Libc)}
		all := groups(file, func(p *patch.Patch) bool { return p.Form != patch.Left })
		slices.SortStableFunc(all, func(a, b group) int {
			return cmp.Or(cmp.Compare(a.patch.Site.Function, b.patch.Site.Function), cmp.Compare(a.patch.Form, b.patch.Form))
		})
		for _, g := range all {
			t.Add(append(first, g.patch.Site.Function.String(), fmt.Sprint(g.sites), g.patch.Form.String()))
			first = []string{"", "", ""}
		}
		if file.Plan.Redirected() {
			t.Add(append(first, string(file.Plan.Redirect.Fix), "1", patch.Lea.String()))
		}
	}
	if !slices.ContainsFunc(f.Files, func(file contents.File) bool { return file.Layer != "" }) {
		t.Drop(1)
	}
	return t
}

// leftGrid is one row for each file, function, verdict and reason. Benign references are
// counted in the sums only.
func leftGrid(f *contents.Findings) *screen.Table {
	t := &screen.Table{Head: []string{"NOT PATCHED", "FIRST AT", "FUNCTION", "SITES", "VERDICT", "WHY"}, Right: 3}
	for i := range f.Files {
		file := &f.Files[i]
		name := fileName(file)
		for _, g := range groups(file, func(p *patch.Patch) bool {
			return p.Form == patch.Left && p.Site.Verdict != find.Benign
		}) {
			t.Add([]string{name, fmt.Sprintf("%#x", g.patch.Site.Vaddr), g.patch.Site.Function.String(),
				fmt.Sprint(g.sites), g.patch.Site.Verdict.String(), Why(&g.patch)})
			name = ""
		}
	}
	return t
}

func passedGrid(f *contents.Findings) *screen.Table {
	t := &screen.Table{Head: []string{"NOT EXAMINED", "WHY"}, Right: -1}
	for _, p := range f.Passed {
		t.Add([]string{p.Name(), p.Reason})
	}
	return t
}

// group is several sites of a file with the same description.
type group struct {
	patch patch.Patch // the first one
	sites int
}

// groups puts together the patches of a file that keep, in the order of their first site.
func groups(file *contents.File, keep func(*patch.Patch) bool) (all []group) {
	for _, p := range file.Plan.Patches {
		if !keep(&p) {
			continue
		}
		i := slices.IndexFunc(all, func(g group) bool {
			q := &g.patch
			return q.Site.Function == p.Site.Function && q.Form == p.Form &&
				(p.Form != patch.Left || q.Site.Verdict == p.Site.Verdict && Why(q) == Why(&p))
		})
		if i < 0 {
			all = append(all, group{patch: p})
			i = len(all) - 1
		}
		all[i].sites++
	}
	return all
}

// Why is the reason for leaving a site: the plan's, else the verdict's.
func Why(p *patch.Patch) string {
	return cmp.Or(p.Reason.String(), p.Site.Reason.String())
}

// sums summarizes the tables in words.
func sums(c screen.Palette, d Deed, f *contents.Findings) []string {
	forms := map[patch.Form]int{}
	var left [find.Benign + 1]int
	for i := range f.Files {
		for _, p := range f.Files[i].Plan.Patches {
			forms[p.Form]++
			if p.Form == patch.Left {
				left[p.Site.Verdict]++
			}
		}
	}
	var lines, byForm []string
	total := 0
	for _, form := range patch.Forms {
		if n := forms[form]; n > 0 {
			total += n
			byForm = append(byForm, fmt.Sprintf("%d %s", n, form))
		}
	}
	if total > 0 {
		lines = append(lines, c.Green(fmt.Sprintf("%s %s", screen.Count(total, "call site"), d.patch))+" ("+strings.Join(byForm, ", ")+")")
	}
	if n := f.Uncovered(); n > 0 {
		lines = append(lines, c.Yellow(screen.Count(n, OpenSite)+" left"))
	}
	if n := Covered(f); n > 0 {
		lines = append(lines, screen.Count(n, OpenSite)+" left, covered by the fallback ("+strings.Join(Coverers(f), ", ")+")")
	}
	if n := left[find.Dormant]; n > 0 {
		lines = append(lines, screen.Count(n, "dormant reference")+" left: used only if the kernel provides no vDSO")
	}
	if n := left[find.Benign]; n > 0 {
		lines = append(lines, screen.Count(n, "benign reference")+" left: compared with, never called")
	}
	lines = append(lines, fixSums(d, f)...)
	if total == 0 && f.LeftOver() == 0 {
		clean := c.Green("no call site of the vsyscall page")
		switch {
		case f.Unread() > 0:
			clean = "no call site in what was examined"
		case f.ELFFiles == 0:
			clean = "no 64-bit x86-64 ELF file in it"
		}
		lines = append([]string{clean}, lines...)
	}
	return append(lines, c.Dim(fmt.Sprintf("%s with %s of code examined", screen.Count(f.ELFFiles, "ELF file"), screen.Size(f.ExecBytes))))
}

func fileName(f *contents.File) string {
	if len(f.Links) == 0 {
		return f.Path
	}
	return fmt.Sprintf("%s (and %s)", f.Path, screen.Count(len(f.Links), "hard link"))
}

// layerName is the number of a layer and the head of its diff ID, as docker shortens it.
func layerName(f *contents.File) string {
	if f.Layer == "" {
		return ""
	}
	return fmt.Sprintf("%d %.12s", f.Index, f.Layer[strings.IndexByte(f.Layer, ':')+1:])
}

// OpenSite is a call site that is a finding, in the words of 'vfix help exit-status'.
const OpenSite = "live or unknown call site"

// Covered counts the remaining sites that the fallback in the image covers.
func Covered(f *contents.Findings) int { return f.LeftOver() - f.Uncovered() }

// Coverers are the parts of the fallback that cover sites, each once.
func Coverers(f *contents.Findings) (all []string) {
	for i := range f.Files {
		if by := f.Files[i].Covered; by != "" && !slices.Contains(all, by) {
			all = append(all, by)
		}
	}
	slices.Sort(all)
	return all
}

// Fixed are the files that a plan fixes, as file and fix.
func Fixed(f *contents.Findings) (all []images.Fixed) {
	for i := range f.Files {
		if p := f.Files[i].Plan; p.Redirected() {
			all = append(all, images.Fixed{Path: f.Files[i].Path, Fix: p.Redirect.Fix})
		}
	}
	return all
}

// fixSums says how many files are fixed, by fix.
func fixSums(d Deed, f *contents.Findings) (lines []string) {
	all := Fixed(f)
	for _, r := range find.Fixes {
		if n := len(slices.DeleteFunc(slices.Clone(all), func(o images.Fixed) bool { return o.Fix != r })); n > 0 {
			lines = append(lines, fmt.Sprintf("%s %s (%s): %s", screen.Count(n, "file"), d.fix, r, fixes.Of(r).Does))
		}
	}
	return lines
}
