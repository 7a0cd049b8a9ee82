// The output of vfix scan: the tables, then a verdict and the command to type.

package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"vfix.dev/vfix/cmd/vfix/screen"
	"vfix.dev/vfix/cmd/vfix/tables"
	"vfix.dev/vfix/images/contents"
	"vfix.dev/vfix/images/media"
	"vfix.dev/vfix/rewriter/find"
	"vfix.dev/vfix/rewriter/patch"
)

// verdictWords explain the verdicts that people read in the tables.
var verdictWords = []struct {
	verdict find.Verdict
	means   string
}{
	{find.Live, "calls the page"},
	{find.Unknown, "cannot be proved"},
	{find.Dormant, "used only on kernels without a vDSO"},
}

// legend explains the words of the tables: those that occur in them, and the forms.
func legend(all []*contents.Findings, explained bool) string {
	verdicts, forms := map[find.Verdict]bool{}, map[patch.Form]bool{}
	for _, f := range all {
		for i := range f.Files {
			for _, p := range f.Files[i].Plan.Patches {
				forms[p.Form] = true
				if p.Form == patch.Left || explained { // the other verdicts do not occur in the tables
					verdicts[p.Site.Verdict] = true
				}
			}
		}
	}
	text := "A call site is code that calls the vsyscall page."
	var words []string
	for _, w := range verdictWords {
		if verdicts[w.verdict] {
			words = append(words, w.verdict.String()+": "+w.means)
		}
	}
	if len(words) > 0 {
		text += " " + strings.Join(words, "; ") + "."
	}
	words = nil
	for _, f := range patch.Forms {
		if forms[f] {
			words = append(words, f.String())
		}
	}
	switch n := len(words); {
	case n == 1:
		text += " " + words[0] + " is the form in which vfix patches it"
	case n > 1:
		text += " " + strings.Join(words[:n-1], ", ") + " and " + words[n-1] + " are the forms in which vfix patches it, fastest first"
	default:
		return text
	}
	return text + ": see 'vfix help how-it-works'."
}

func (o *output) scanned(opts ScanOptions, all []*contents.Findings) error {
	if opts.json() {
		return o.findings(tables.Scanned, opts.printOptions, all...)
	}
	explained := false
	for i, f := range all {
		if i > 0 {
			fmt.Fprintln(o.Stdout)
		}
		if err := o.findings(tables.Scanned, opts.printOptions, f); err != nil {
			return err
		}
		if !explained && slices.ContainsFunc(f.Files, func(f contents.File) bool { return len(f.Plan.Patches) > 0 }) {
			explained = true
			fmt.Fprintln(o.Stdout)
			for _, line := range screen.Wrap(legend(all, opts.explain), o.Out.TextWidth()) {
				fmt.Fprintln(o.Stdout, o.Out.Paint.Dim(line))
			}
		}
		o.hazards(f)
		fmt.Fprintln(o.Stdout)
		writeVerdict(o.Stdout, o.Out, opts.here, f)
	}
	return nil
}

// hazards prints other causes of failures in a source, and what to do about them.
func (o *output) hazards(f *contents.Findings) {
	for _, h := range f.Hazards {
		const names = 7 // columns: the longest label
		fmt.Fprintln(o.Stdout)
		o.Hanging(o.Out.Paint.Yellow("hazard")+" "+screen.Gap, names+len(screen.Gap), screen.Printable(cmp.Or(h.Path, f.Name()))+": "+screen.Printable(h.Title()))
		o.Hanging(o.Out.Paint.Bold("means")+"  "+screen.Gap, names+len(screen.Gap), h.Means())
		o.Hanging(o.Out.Paint.Bold("do")+"     "+screen.Gap, names+len(screen.Gap), h.Do())
	}
}

// writeVerdict says in a line whether a source is affected, and below it what to type.
func writeVerdict(w io.Writer, s screen.Stream, here place, f *contents.Findings) {
	c := s.Paint
	v := f.Verdict()
	if sites := f.UncoveredSites(); v == contents.Affected {
		s.Say(w, c.Yellow(v.String()+":")+fmt.Sprintf(" %s in %s; vfix can fix %s", screen.Count(sites, "call site"), screen.Count(f.UncoveredFiles(), "file"), fixable(f, sites)))
	}
	if why := f.IncompleteText(); why != "" {
		s.Say(w, c.Red(contents.Incomplete.String()+":")+" "+screen.Printable(why))
	}
	caught := f.CaughtSites()
	switch {
	case v == contents.Affected:
		for _, command := range here.fixes(f) {
			fmt.Fprintln(w, "  "+c.Bold(screen.Printable(command)))
		}
	case v == contents.Incomplete:
	case caught > 0:
		s.Say(w, c.Green(v.String()+":")+" "+screen.Count(caught, "call site")+", caught at run time by "+strings.Join(tables.Coverers(f), " and "))
		if f.Affected() {
			fmt.Fprintln(w, "  for full speed: "+c.Bold(screen.Printable(here.fixes(f)[0])))
		}
	default:
		s.Say(w, c.Green(v.String())+screen.Printable(about(f)))
		if fixNames(f) != "" {
			fmt.Fprintln(w, "  to fix "+fixNames(f)+": "+c.Bold(screen.Printable(here.fixes(f)[0])))
		}
	}
}

// about says what a verdict covers, if that is not a whole system.
func about(f *contents.Findings) string {
	what := "the program and the %s that it needs"
	if strings.HasPrefix(f.Source, string(media.Dir)+":") {
		what = "its programs and the %s that they need"
	}
	l := f.Loads
	if f.Library {
		return ": this library alone; a program that loads it loads others as well"
	}
	if l == nil {
		return ""
	}
	text := fmt.Sprintf(": "+what+" in %s", screen.Count(len(l.Examined), "file"), l.Root)
	if len(l.Opens) > 0 {
		text += "; what is opened at run time (dlopen) is not known"
	}
	return text
}

// fixable says how many of the call sites vfix can patch.
func fixable(f *contents.Findings, sites int) string {
	n := 0
	for i := range f.Files {
		for _, p := range f.Files[i].Plan.Patches {
			if p.Form != patch.Left && f.Files[i].Covered == "" && p.Site.Called {
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
