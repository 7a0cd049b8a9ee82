// The output of a diagnosis:
//
//	core.1234: bash, pid 1234: a call of time() in the vsyscall page
//	  what      0xffffffffff600400 is time() in the vsyscall page, …
//	  program   /bin/bash: bash -c 'echo up'
//	  registers SIGSEGV, ip 0xffffffffff600400, sp 0x7ffe…
//	  caller    /lib/libc-2.13.so+0x9f8b9, in time+0x9
//	  …
//	            the machine code, before and after
//	  fix       vfix rebuild redis:2.8.22

package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"vfix.dev/vfix/cmd/vfix/screen"
	"vfix.dev/vfix/host/diagnose"
	"vfix.dev/vfix/rewriter/patch"
)

func (o *output) diagnosis(opts printOptions, all []*diagnose.Result) error {
	if opts.json() {
		return o.document("diagnose", false, diagnosisJSON(all))
	}
	first := true
	for _, r := range all {
		if len(r.Crashes) == 0 {
			what := screen.Count(r.Lines, "line")
			if r.Containers > 0 {
				what = screen.Count(r.Containers, "container")
			}
			if r.Unread > 0 {
				what += fmt.Sprintf(", %d not understood", r.Unread)
			}
			fmt.Fprintf(o.Stdout, "%s: no crash in %s\n", screen.Printable(r.Input), what)
		}
		shown := r.Crashes
		if len(shown) > fewCrashes {
			shown = o.crashSummary(r)
		}
		for _, c := range shown {
			if !first {
				fmt.Fprintln(o.Stdout)
			}
			first = false
			writeCrash(o.Stdout, o.Out, c)
		}
		if n := len(r.Crashes) - len(shown); n > 0 {
			fmt.Fprintf(o.Stdout, "\n%d more are not shown: --format json lists them all\n", n)
		}
	}
	return nil
}

// fewCrashes is how many crashes are shown one by one; of more, only examples are shown.
const (
	fewCrashes = 5
	examples   = 3
)

// crashSummary prints how many crashes of what kind a log has, and returns examples, those of
// the vsyscall page first.
func (o *output) crashSummary(r *diagnose.Result) []*diagnose.Crash {
	var page, other []*diagnose.Crash
	inPage, all := 0, 0
	programs := map[string]int{}
	for _, c := range r.Crashes {
		all += c.Count
		if c.Kind.Vsyscall() {
			page, inPage = append(page, c), inPage+c.Count
			programs[c.Program] += c.Count
		} else {
			other = append(other, c)
		}
	}
	names := slices.SortedFunc(maps.Keys(programs), func(a, b string) int {
		return cmp.Or(cmp.Compare(programs[b], programs[a]), cmp.Compare(a, b))
	})
	var most []string
	for _, name := range names[:min(len(names), fewCrashes)] {
		most = append(most, fmt.Sprintf("%s %d", cmp.Or(name, "unnamed"), programs[name]))
	}
	if n := len(names) - len(most); n > 0 {
		most = append(most, fmt.Sprintf("%d more programs", n))
	}
	text := fmt.Sprintf("%s: %s in %s: %s", r.Input, screen.Count(all, "crash"), screen.Count(r.Lines, "line"), crashes(inPage))
	if len(most) > 0 {
		text += " (" + strings.Join(most, ", ") + ")"
	}
	o.Out.Write(o.Stdout, "", 0, fmt.Sprintf("%s, %d of other causes. Examples:", text, all-inPage))
	fmt.Fprintln(o.Stdout)
	return append(page, other...)[:examples]
}

// labelWidth is the width of the labels at the left, in columns.
const labelWidth = 10

func writeCrash(w io.Writer, s screen.Stream, c *diagnose.Crash) {
	title := c.Title()
	who := c.Input
	if name := processName(c); name != "" && name != who {
		who += ": " + name
	}
	paint := s.Paint.Green
	if c.Kind.Vsyscall() {
		paint = s.Paint.Red
	}
	who = screen.Printable(who)
	if s.Width > 0 && len(who+": "+title) > s.Width {
		fmt.Fprintln(w, s.Paint.Bold(who)+":")
		for _, line := range screen.Wrap(title, s.Width-len(screen.Gap)) {
			fmt.Fprintln(w, screen.Gap+paint(line))
		}
	} else {
		fmt.Fprintln(w, s.Paint.Bold(who)+": "+paint(title))
	}
	row := func(label, text string) {
		if text == "" {
			return
		}
		s.Write(w, "  "+s.Paint.Dim(screen.Pad(label, labelWidth, false)), labelWidth+2, text)
	}
	if c.Verdict != "" {
		row("verdict", c.Verdict+" ("+confidenceText(c)+")")
	}
	if c.Meaning != c.Verdict {
		row("what", c.Meaning)
	}
	row("program", programText(c))
	label := "signal"
	if c.Known.Fault || c.Known.IP || c.Known.SP {
		label = "registers"
	}
	row(label, registersText(c))
	row("time", c.When)
	if c.Page != "" && c.Kind.Vsyscall() {
		row("page", string(c.Page)+" in the process")
	}
	if c.Caller != nil {
		writeCaller(w, s, c, row)
	}
	for _, line := range c.Lines {
		row("log", line)
	}
	for _, n := range c.Notes {
		row("note", n)
	}
	command := func(label string, f diagnose.Fix) {
		// A command stays on one line: it is there to be copied.
		fmt.Fprintln(w, "  "+s.Paint.Dim(screen.Pad(label, labelWidth, false))+s.Paint.Bold(screen.Printable(f.Command)))
		row("", f.Why)
	}
	label = "fix"
	for _, f := range c.Fixes {
		command(label, f)
		label = "or"
	}
	if len(c.Fixes) == 0 && c.Next != nil {
		command("next", *c.Next)
	}
	if len(c.Fixes) == 0 && (c.Kind == diagnose.Unknown || c.Kind == diagnose.Other) {
		row("help", "'vfix help other-causes' lists further causes, and the commands that collect a report for someone else")
	}
}

// processName is the process, or the processes, that crashed.
func processName(c *diagnose.Crash) string {
	name := c.Program
	switch {
	case c.Kind == diagnose.Schema1:
		name = "an image"
	case name == "" && (c.Source == diagnose.ContainerEnd || c.Source == diagnose.ImageScan) && c.Count <= 1:
		return ""
	case name == "":
		name = "a program"
	}
	switch {
	case c.Count > 1:
		return fmt.Sprintf("%s, %d times", name, c.Count)
	case len(c.PIDs) == 1:
		return fmt.Sprintf("%s, pid %d", name, c.PIDs[0])
	}
	return name
}

// confidenceText is how sure the verdict is.
func confidenceText(c *diagnose.Crash) string {
	switch c.Confidence {
	case diagnose.Likely:
		return "likely"
	case diagnose.NotKnown:
		return "more evidence is needed"
	}
	return "certain"
}

func programText(c *diagnose.Crash) string {
	var parts []string
	for _, p := range []string{c.Executable, c.Command} {
		if p != "" {
			parts = append(parts, p)
		}
	}
	text := strings.Join(parts, ": ")
	if c.Count > 1 && len(c.PIDs) > 0 {
		text = strings.TrimSpace(text + " pids " + strings.Trim(fmt.Sprint(c.PIDs), "[]"))
		if len(c.PIDs) < c.Count {
			text += " …"
		}
	}
	return text
}

func registersText(c *diagnose.Crash) string {
	var parts []string
	if c.Signal != 0 {
		parts = append(parts, diagnose.SignalName(c.Signal))
	}
	for _, r := range []struct {
		name  string
		value uint64
		known bool
	}{{"address", c.Fault, c.Known.Fault}, {"ip", c.IP, c.Known.IP}, {"sp", c.SP, c.Known.SP}} {
		if r.known {
			parts = append(parts, r.name+" "+hex(r.value))
		}
	}
	return strings.Join(parts, ", ")
}

// writeCaller writes the caller of the page, and its code.
func writeCaller(w io.Writer, s screen.Stream, c *diagnose.Crash, row func(label, text string)) {
	k := c.Caller
	text := "returns to " + hex(k.Return)
	if k.Module != "" {
		text = fmt.Sprintf("%s+%#x", k.Module, k.Offset)
	}
	if k.Symbol != "" {
		text += fmt.Sprintf(", in %s+%#x", k.Symbol, k.Into)
	}
	if k.Tail {
		text += ": calls a function that jumps to the page"
	}
	row("caller", text)
	var file []string
	for _, f := range [][2]string{{"", k.Package}, {"", k.Libc}, {"build ID ", k.BuildID}} {
		if f[1] != "" {
			file = append(file, f[0]+f[1])
		}
	}
	row("file", strings.Join(file, ", "))
	switch {
	case k.Site != nil:
		row("code", fmt.Sprintf("call site at %#x: %v, %s", k.Site.Site.Vaddr, k.Site.Site.Verdict, siteText(k.Site)))
		if l := k.Site.Listing; l != nil {
			writeCode(w, s, "", nil, l.Before, l.After)
		}
	case len(k.Lines) > 0:
		row("code", fmt.Sprintf("before %#x", k.Vaddr))
		writeCode(w, s, "", nil, k.Lines, nil)
	}
}

// siteText says what vfix does about a call site.
func siteText(p *patch.Patch) string {
	if p.Form == patch.Left {
		return "vfix does not patch it: " + whyLeft(p)
	}
	return fmt.Sprintf("vfix patches it in the %v form (%s)", p.Form, p.Reason)
}

type jsonDiagnosis struct {
	Results []jsonCrashes `json:"results"`
}

type jsonCrashes struct {
	*diagnose.Result
	Crashes []jsonCrash `json:"crashes"`
}

type jsonCrash struct {
	*diagnose.Crash
	Vsyscall   bool                `json:"vsyscall"`
	Confidence diagnose.Confidence `json:"confidence"`
	Address    string              `json:"address"`
	IP         string              `json:"ip"`
	SP         string              `json:"sp"`
	Caller     *jsonCaller         `json:"caller"`
}

type jsonCaller struct {
	*diagnose.Caller
	Return string            `json:"return"`
	Vaddr  string            `json:"vaddr"`
	Site   *jsonSite         `json:"site"`
	Code   []jsonInstruction `json:"code"`
}

func diagnosisJSON(all []*diagnose.Result) jsonDiagnosis {
	var doc jsonDiagnosis
	for _, r := range all {
		out := jsonCrashes{Result: r}
		for _, c := range r.Crashes {
			out.Crashes = append(out.Crashes, crashJSON(c))
		}
		doc.Results = append(doc.Results, out)
	}
	return doc
}

func crashJSON(c *diagnose.Crash) jsonCrash {
	j := jsonCrash{
		Crash: c, Vsyscall: c.Kind.Vsyscall(), Confidence: cmp.Or(c.Confidence, diagnose.Certain),
		Address: hexIf(c.Fault, c.Known.Fault), IP: hexIf(c.IP, c.Known.IP), SP: hexIf(c.SP, c.Known.SP),
	}
	if k := c.Caller; k != nil {
		j.Caller = &jsonCaller{Caller: k, Return: hex(k.Return), Vaddr: hexIf(k.Vaddr, k.Vaddr != 0), Code: instructionsJSON(k.Lines)}
		if k.Site != nil {
			site := siteJSON(k.Site)
			j.Caller.Site = &site
		}
	}
	return j
}
