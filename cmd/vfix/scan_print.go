// What vfix scan prints: the tables, and behind them a verdict and the command to type.

package main

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	"vfix.dev/vfix/images/contents"
	"vfix.dev/vfix/rewriter"
)

// legend explains the words of the tables.
const legend = "A call site is code that calls the vsyscall page. live: it is proved to; unknown: vfix cannot " +
	"tell; dormant: only where the kernel provides no vDSO. entry, call, lea, imm and syscall are the " +
	"forms in which vfix patches it, fastest first: see 'vfix help how-it-works'."

// scanned prints what a scan of each source found.
func (o *output) scanned(opts ScanOptions, all []*contents.Findings) error {
	switch {
	case opts.json():
		return o.findings(scanned, opts.printOptions, all...)
	case opts.format == sarifFormat:
		for _, f := range all {
			o.warnings(f)
		}
		return o.json(findingsSARIF(all))
	}
	explained := false
	for i, f := range all {
		if i > 0 {
			fmt.Fprintln(o.stdout)
		}
		if err := o.findings(scanned, opts.printOptions, f); err != nil {
			return err
		}
		if len(f.Files) > 0 && !explained {
			explained = true
			fmt.Fprintln(o.stdout)
			for _, line := range wrap(legend, o.out.textWidth()) {
				fmt.Fprintln(o.stdout, o.out.paint.dim(line))
			}
		}
		o.hazards(f)
		fmt.Fprintln(o.stdout)
		writeVerdict(o.stdout, o.out.paint, f)
	}
	return nil
}

// hazards prints what else ends the programs of a source, and what to do about it.
func (o *output) hazards(f *contents.Findings) {
	for _, h := range f.Hazards {
		const names = 7 // columns: the longest label
		fmt.Fprintln(o.stdout)
		o.hanging(o.out.paint.yellow("hazard")+" "+gap, names+len(gap), printable(cmp.Or(h.Path, f.Name()))+": "+printable(h.Title()))
		o.hanging(o.out.paint.bold("means")+"  "+gap, names+len(gap), h.Means())
		o.hanging(o.out.paint.bold("do")+"     "+gap, names+len(gap), h.Do())
	}
}

// writeVerdict says in a line whether a source is affected, and below it what to type.
func writeVerdict(w io.Writer, c palette, f *contents.Findings) {
	sites := uncoveredSites(f)
	if sites > 0 {
		fmt.Fprintln(w, c.yellow("AFFECTED:")+fmt.Sprintf(" %s in %s; vfix can fix %s", count(sites, "call site"), count(openFiles(f), "file"), fixable(f, sites)))
	}
	if n := f.Unread(); n > 0 {
		fmt.Fprintln(w, c.red("INCOMPLETE:")+" "+count(n, "path")+" could not be read")
	}
	if sites > 0 {
		for _, command := range fixes(f) {
			fmt.Fprintln(w, "  "+c.bold(printable(command)))
		}
		return
	}
	switch {
	case f.Unread() > 0:
	case f.ELFFiles == 0 && len(f.Passed) > 0:
		fmt.Fprintln(w, c.red("INCOMPLETE:")+" nothing was examined")
	case caughtSites(f) > 0:
		fmt.Fprintln(w, c.green("NOT AFFECTED:")+" "+count(caughtSites(f), "call site")+", caught at run time by "+strings.Join(coverers(f), " and "))
		if f.Affected() {
			fmt.Fprintln(w, "  for full speed: "+c.bold(printable(fixes(f)[0])))
		}
	default:
		fmt.Fprintln(w, c.green("NOT AFFECTED"))
	}
}

// fixable says how many of the call sites vfix can patch.
func fixable(f *contents.Findings, sites int) string {
	n := 0
	for i := range f.Files {
		for _, p := range f.Files[i].Plan.Patches {
			if p.Form != rewriter.Left && f.Files[i].Covered == "" {
				n++
			}
		}
	}
	switch {
	case n == 0:
		return "none of them"
	case n < sites:
		return fmt.Sprintf("%d of them", n)
	case sites == 1:
		return "it"
	}
	return "all of them"
}

// openFiles counts the files with call sites that nothing covers.
func openFiles(f *contents.Findings) int {
	n := 0
	for i := range f.Files {
		if f.Files[i].Covered == "" && openIn(&f.Files[i]) > 0 {
			n++
		}
	}
	return n
}
