package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/mattn/go-runewidth"

	"vfix.dev/vfix/images"
	"vfix.dev/vfix/rewriter"
)

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
func writeFindings(w io.Writer, s stream, d deed, f *images.Findings) {
	fmt.Fprintln(w, s.paint.bold(printable(f.Source)))
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
func patchGrid(f *images.Findings) *grid {
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
func leftGrid(f *images.Findings) *grid {
	t := &grid{head: []string{"LEFT AS IT IS", "FIRST AT", "FUNCTION", "SITES", "VERDICT", "WHY"}, right: 3}
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

func passedGrid(f *images.Findings) *grid {
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
func groups(file *images.File, keep func(*rewriter.Patch) bool) []group {
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
func sums(c palette, d deed, f *images.Findings) []string {
	var forms [rewriter.Syscall + 1]int
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
	for form := rewriter.Entry; form <= rewriter.Syscall; form++ {
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
		lines = append(lines, count(n, "dormant reference")+" left: used only where the kernel gives no vDSO")
	}
	if n := left[rewriter.Benign]; n > 0 {
		lines = append(lines, count(n, "benign reference")+" left: compared with, never called")
	}
	if total == 0 && f.LeftOver() == 0 {
		lines = append([]string{c.green("no call site of the vsyscall page")}, lines...)
	}
	return append(lines, c.dim(fmt.Sprintf("%s with %s of code examined", count(f.ELFFiles, "ELF file"), humanSize(f.ExecBytes))))
}

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

func hasLayers(f *images.Findings) bool {
	return slices.ContainsFunc(f.Files, func(file images.File) bool { return file.Layer != "" })
}

func fileName(f *images.File) string {
	if len(f.Links) == 0 {
		return f.Path
	}
	return fmt.Sprintf("%s (and %s)", f.Path, count(len(f.Links), "hard link"))
}

// layerName is the number of a layer and the head of its diff ID, as docker shortens it.
func layerName(f *images.File) string {
	if f.Layer == "" {
		return ""
	}
	_, hex, found := strings.Cut(f.Layer, ":")
	if !found {
		hex = f.Layer
	}
	return fmt.Sprintf("%d %.12s", f.Index, hex)
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// humanSize writes a number of bytes for people, in powers of 1024 (IEC 80000-13).
func humanSize(n int64) string {
	if n < 1024 {
		return fmt.Sprintf("%d B", n)
	}
	f, unit := float64(n), ""
	for _, unit = range []string{"KiB", "MiB", "GiB", "TiB"} {
		if f /= 1024; f < 1024 {
			break
		}
	}
	return fmt.Sprintf("%.1f %s", f, unit)
}

// grid is a table under way.
type grid struct {
	head  []string
	rows  [][]string
	right int // the column aligned to the right; < 0: none
	drop  int // a column that is not shown; 0: all are
}

// add appends a row; cells may come from untrusted files.
func (t *grid) add(row []string) {
	clean := make([]string, len(row))
	for i, cell := range row {
		clean[i] = printable(cell)
	}
	t.rows = append(t.rows, clean)
}

// gap stands between columns. minLast is how narrow the last column, which wraps, may get
// before the first one gives up its width: its cells then have lines of their own, and
// indent is what stays of it.
const (
	gap     = "  "
	minLast = 24
	indent  = 4
)

// write prints the table. On a terminal a first cell that is too long gets a line of its
// own, and the last column wraps; elsewhere lines are as long as they are.
func (t *grid) write(w io.Writer, s stream) {
	head, rows := t.head, t.rows
	if t.drop > 0 {
		head, rows = without(head, t.drop), nil
		for _, r := range t.rows {
			rows = append(rows, without(r, t.drop))
		}
	}
	right := t.right
	if t.drop > 0 && t.drop < right {
		right--
	}
	widths := make([]int, len(head))
	for _, r := range append([][]string{head}, rows...) {
		for i, cell := range r {
			widths[i] = max(widths[i], runewidth.StringWidth(cell))
		}
	}
	last := len(head) - 1
	if s.width > 0 {
		fit(widths, s.width)
	}
	line := func(cells []string, paint func(string) string) {
		if runewidth.StringWidth(cells[0]) > widths[0] {
			fmt.Fprintln(w, paint(cells[0]))
			cells = append([]string{""}, cells[1:]...)
		}
		tail := wrap(cells[last], widths[last])
		for n, end := range tail {
			if n > 0 {
				cells = make([]string, len(cells))
			}
			var b strings.Builder
			for i, cell := range cells[:last] {
				b.WriteString(pad(cell, widths[i], i == right) + gap)
			}
			fmt.Fprintln(w, strings.TrimRight(paint(b.String()+end), " "))
		}
	}
	line(head, s.paint.bold)
	for _, r := range rows {
		line(r, func(s string) string { return s })
	}
}

// fit narrows the last column, then the first, until a row is at most width columns.
func fit(widths []int, width int) {
	last := len(widths) - 1
	room := width - len(gap)*last // for the last column
	for _, n := range widths[:last] {
		room -= n
	}
	if room < min(widths[last], minLast) {
		room += widths[0] - indent
		widths[0] = indent
	}
	widths[last] = min(widths[last], max(room, minLast))
}

func without(row []string, i int) []string {
	return append(slices.Clone(row[:i]), row[i+1:]...)
}

func pad(s string, width int, right bool) string {
	space := strings.Repeat(" ", max(width-runewidth.StringWidth(s), 0))
	if right {
		return space + s
	}
	return s + space
}

// wrap breaks s at spaces into lines of at most width columns, where that is possible.
func wrap(s string, width int) []string {
	lines := []string{""}
	for _, word := range strings.Fields(s) {
		end := len(lines) - 1
		switch {
		case lines[end] == "":
			lines[end] = word
		case runewidth.StringWidth(lines[end])+1+runewidth.StringWidth(word) <= width:
			lines[end] += " " + word
		default:
			lines = append(lines, word)
		}
	}
	return lines
}
