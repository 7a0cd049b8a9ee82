// The tables of scan, patch, rebuild, verify and hotfix.

package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"vfix.dev/vfix/images/contents"
	"vfix.dev/vfix/rewriter"
)

// findings prints what scan or patch found.
func (o *output) findings(d deed, opts printOptions, all ...*contents.Findings) error {
	for _, f := range all {
		o.warnings(f)
	}
	if opts.json() {
		return o.json(findingsJSON(d, opts, all))
	}
	for i, f := range all {
		if i > 0 {
			fmt.Fprintln(o.stdout)
		}
		if opts.explain {
			writeExplanations(o.stdout, o.out, f)
		}
		writeFindings(o.stdout, o.out, d, f)
	}
	return nil
}

// warnings prints what the rewriter has to say about files.
func (o *output) warnings(f *contents.Findings) {
	for _, text := range f.Warnings {
		o.warn("%s", text)
	}
	for i := range f.Files {
		for _, text := range f.Files[i].Plan.Warnings {
			o.warn("%s: %s", f.Files[i].Path, text)
		}
	}
}

// deed is what a verb did about the call sites in a table.
type deed struct{ patch string }

var (
	scanned  = deed{"can be patched"}
	planned  = deed{"would be patched"}
	patched  = deed{"patched"}
	verified = deed{"not patched"}
)

// writeFindings writes the tables of one source: what is patched and how, what is left
// and why, what could not be examined, and the sums.
func writeFindings(w io.Writer, s stream, d deed, f *contents.Findings) {
	fmt.Fprintln(w, s.paint.bold(printable(f.Name())))
	if f.Digest != "" {
		fmt.Fprintln(w, s.paint.dim(printable(f.Digest)))
	}
	for _, t := range []*grid{patchGrid(f), leftGrid(f), passedGrid(f)} {
		if len(t.rows) > 0 {
			fmt.Fprintln(w)
			t.write(w, s)
		}
	}
	fmt.Fprintln(w)
	for _, line := range sums(s.paint, d, f) {
		fmt.Fprintln(w, line)
	}
}

// patchGrid is one row for each file, function and form.
func patchGrid(f *contents.Findings) *grid {
	t := &grid{head: []string{"FILE", "LAYER", "LIBC", "FUNCTION", "SITES", "PATCH"}, right: 4}
	if !hasLayers(f) {
		t.drop = 1
	}
	for i := range f.Files {
		file := &f.Files[i]
		first := []string{fileName(file), layerName(file), orDash(file.Report.Libc)}
		all := groups(file, func(p *rewriter.Patch) bool { return p.Form != rewriter.Left })
		slices.SortStableFunc(all, func(a, b group) int {
			return cmp.Or(cmp.Compare(a.patch.Site.Function, b.patch.Site.Function), cmp.Compare(a.patch.Form, b.patch.Form))
		})
		for _, g := range all {
			t.add(append(first, g.patch.Site.Function.String(), fmt.Sprint(g.sites), g.patch.Form.String()))
			first = []string{"", "", ""}
		}
	}
	return t
}

// leftGrid is one row for each file, function, verdict and reason. Benign references are
// counted in the sums only.
func leftGrid(f *contents.Findings) *grid {
	t := &grid{head: []string{"NOT PATCHED", "FIRST AT", "FUNCTION", "SITES", "VERDICT", "WHY"}, right: 3}
	for i := range f.Files {
		file := &f.Files[i]
		name := fileName(file)
		for _, g := range groups(file, func(p *rewriter.Patch) bool {
			return p.Form == rewriter.Left && p.Site.Verdict != rewriter.Benign
		}) {
			t.add([]string{name, fmt.Sprintf("%#x", g.patch.Site.Vaddr), g.patch.Site.Function.String(),
				fmt.Sprint(g.sites), g.patch.Site.Verdict.String(), why(&g.patch)})
			name = ""
		}
	}
	return t
}

func passedGrid(f *contents.Findings) *grid {
	t := &grid{head: []string{"NOT EXAMINED", "WHY"}, right: -1}
	for _, p := range f.Passed {
		t.add([]string{p.Path, p.Reason})
	}
	return t
}

// group is several sites of a file about which there is the same to say.
type group struct {
	patch rewriter.Patch // the first one
	sites int
}

// groups puts together the patches of a file that keep, in the order of their first site.
func groups(file *contents.File, keep func(*rewriter.Patch) bool) []group {
	var all []group
	for _, p := range file.Plan.Patches {
		if !keep(&p) {
			continue
		}
		i := slices.IndexFunc(all, func(g group) bool {
			q := &g.patch
			return q.Site.Function == p.Site.Function && q.Form == p.Form &&
				(p.Form != rewriter.Left || q.Site.Verdict == p.Site.Verdict && why(q) == why(&p))
		})
		if i < 0 {
			all = append(all, group{patch: p})
			i = len(all) - 1
		}
		all[i].sites++
	}
	return all
}

// why is the reason for leaving a site: of the plan, else of the verdict.
func why(p *rewriter.Patch) string {
	if p.Reason != "" {
		return p.Reason
	}
	return p.Site.Reason
}

// sums says in words what the tables say in rows.
func sums(c palette, d deed, f *contents.Findings) []string {
	forms := map[rewriter.Form]int{}
	var left [rewriter.Benign + 1]int
	for i := range f.Files {
		for _, p := range f.Files[i].Plan.Patches {
			forms[p.Form]++
			if p.Form == rewriter.Left {
				left[p.Site.Verdict]++
			}
		}
	}
	var lines, byForm []string
	total := 0
	for _, form := range rewriter.Forms {
		if n := forms[form]; n > 0 {
			total += n
			byForm = append(byForm, fmt.Sprintf("%d %s", n, form))
		}
	}
	if total > 0 {
		lines = append(lines, c.green(fmt.Sprintf("%s %s", count(total, "call site"), d.patch))+" ("+strings.Join(byForm, ", ")+")")
	}
	if n := f.Uncovered(); n > 0 {
		lines = append(lines, c.yellow(count(n, openSite)+" left"))
	}
	if n := coveredSites(f); n > 0 {
		lines = append(lines, count(n, openSite)+" left, covered by the fallback ("+strings.Join(coverers(f), ", ")+")")
	}
	if n := left[rewriter.Dormant]; n > 0 {
		lines = append(lines, count(n, "dormant reference")+" left: used only if the kernel provides no vDSO")
	}
	if n := left[rewriter.Benign]; n > 0 {
		lines = append(lines, count(n, "benign reference")+" left: compared with, never called")
	}
	if total == 0 && f.LeftOver() == 0 {
		clean := c.green("no call site of the vsyscall page")
		switch {
		case f.ELFFiles == 0 && f.Unread() == 0:
			clean = "no 64-bit x86-64 ELF file in it"
		case f.Unread() > 0:
			clean = "no call site in what could be read"
		}
		lines = append([]string{clean}, lines...)
	}
	return append(lines, c.dim(fmt.Sprintf("%s with %s of code examined", count(f.ELFFiles, "ELF file"), humanSize(f.ExecBytes))))
}

func hasLayers(f *contents.Findings) bool {
	return slices.ContainsFunc(f.Files, func(file contents.File) bool { return file.Layer != "" })
}

func fileName(f *contents.File) string {
	if len(f.Links) == 0 {
		return f.Path
	}
	return fmt.Sprintf("%s (and %s)", f.Path, count(len(f.Links), "hard link"))
}

// layerName is the number of a layer and the head of its diff ID, as docker shortens it.
func layerName(f *contents.File) string {
	if f.Layer == "" {
		return ""
	}
	_, hex, found := strings.Cut(f.Layer, ":")
	if !found {
		hex = f.Layer
	}
	return fmt.Sprintf("%d %.12s", f.Index, hex)
}
