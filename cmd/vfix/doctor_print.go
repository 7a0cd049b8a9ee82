// What vfix doctor prints.

package main

import (
	"fmt"
	"slices"
	"strings"

	"vfix.dev/vfix/host/doctor"
)

// doctor prints a report to stdout.
func (o *output) doctor(opts printOptions, r *doctor.Report) error {
	if opts.json() {
		return o.json(doctorJSON(r))
	}
	for i := range r.Checks {
		if i > 0 {
			fmt.Fprintln(o.stdout)
		}
		o.check(&r.Checks[i])
	}
	return nil
}

// fewLines are as many as are all shown; of more, examples are.
const fewLines = 10

// check prints one check: its verdict and what decided it, then what it means.
func (o *output) check(c *doctor.Check) {
	p := o.out.paint
	paint := map[doctor.Verdict]func(string) string{
		doctor.OK: p.green, doctor.Warn: p.yellow, doctor.Fail: p.red, doctor.Skipped: p.dim,
	}[c.Verdict]
	const label, names = 7, 10 // columns: the longest verdict, the longest name
	head := paint(pad(string(c.Verdict), label, false)) + gap + p.bold(pad(c.Name, names, false)) + gap
	o.hanging(head, label+names+2*len(gap), c.Found)
	lines := c.Lines
	if len(lines) > fewLines {
		lines = append(slices.Clone(lines[:examples]), fmt.Sprintf("%d more are not shown: --format json lists them all", len(lines)-examples))
	}
	for _, l := range lines {
		o.hanging(strings.Repeat(" ", label+len(gap)), label+len(gap), l)
	}
	for _, part := range [][2]string{{"means", c.Means}, {"do", c.Do}} {
		if part[1] != "" {
			o.hanging(strings.Repeat(" ", label+len(gap))+p.bold(pad(part[0], names, false))+gap, label+names+2*len(gap), part[1])
		}
	}
	for _, n := range c.Notes {
		o.hanging(strings.Repeat(" ", label+len(gap))+pad("note", names, false)+gap, label+names+2*len(gap), n)
	}
}
