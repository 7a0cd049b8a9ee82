// What vfix doctor prints.

package main

import (
	"fmt"
	"slices"
	"strings"

	"vfix.dev/vfix/cmd/vfix/screen"
	"vfix.dev/vfix/host/doctor"
)

// doctor prints a report to stdout.
func (o *output) doctor(opts printOptions, r *doctor.Report) error {
	if opts.json() {
		return o.json(struct {
			jsonDocument
			Failed []string `json:"failed"`
			*doctor.Report
		}{document("doctor"), r.Failed(), r})
	}
	for i := range r.Checks {
		if i > 0 {
			fmt.Fprintln(o.Stdout)
		}
		o.check(&r.Checks[i])
	}
	return nil
}

// fewLines are as many as are all shown; of more, examples are.
const fewLines = 10

// check prints one check: its verdict and what decided it, then what it means.
func (o *output) check(c *doctor.Check) {
	p := o.Out.Paint
	paint := map[doctor.Verdict]func(string) string{
		doctor.OK: p.Green, doctor.Warn: p.Yellow, doctor.Fail: p.Red, doctor.Skipped: p.Dim,
	}[c.Verdict]
	const label, names = 7, 10 // columns: the longest verdict, the longest name
	head := paint(screen.Pad(string(c.Verdict), label, false)) + screen.Gap + p.Bold(screen.Pad(c.Name, names, false)) + screen.Gap
	o.Hanging(head, label+names+2*len(screen.Gap), c.Found)
	lines := c.Lines
	if len(lines) > fewLines {
		lines = append(slices.Clone(lines[:examples]), fmt.Sprintf("%d more are not shown: --format json lists them all", len(lines)-examples))
	}
	for _, l := range lines {
		o.Hanging(strings.Repeat(" ", label+len(screen.Gap)), label+len(screen.Gap), l)
	}
	for _, part := range [][2]string{{"means", c.Means}, {"do", c.Do}} {
		if part[1] != "" {
			o.Hanging(strings.Repeat(" ", label+len(screen.Gap))+p.Bold(screen.Pad(part[0], names, false))+screen.Gap, label+names+2*len(screen.Gap), part[1])
		}
	}
	for _, n := range c.Notes {
		o.Hanging(strings.Repeat(" ", label+len(screen.Gap))+screen.Pad("note", names, false)+screen.Gap, label+names+2*len(screen.Gap), n)
	}
}
