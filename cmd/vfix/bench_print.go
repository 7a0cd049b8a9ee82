// The output of vfix bench.

package main

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"vfix.dev/vfix/cmd/vfix/screen"
	"vfix.dev/vfix/host/bench"
	"vfix.dev/vfix/host/bench/figure"
	"vfix.dev/vfix/images/atomicfile"
)

type benched struct {
	image   string // "" for this host
	title   string
	modes   []bench.Mode
	figures []bench.Figure
}

type jsonBench struct {
	Image    string         `json:"image"` // "" for this host
	Rounds   int            `json:"rounds"`
	Modes    []bench.Mode   `json:"modes"`
	Figures  []bench.Figure `json:"figures"`
	Redis    []bench.Redis  `json:"redis"` // with --redis
	Requests int            `json:"requests"`
	Pipeline int            `json:"pipeline"`
}

// barWidth is how many columns the longest bar takes.
const barWidth = 24

// bench prints the figures to stdout.
func (o *output) bench(opts BenchOptions, b benched) error {
	if opts.json() {
		return o.document("bench", false, jsonBench{Image: b.image, Rounds: opts.rounds, Modes: b.modes, Figures: b.figures})
	}
	for i, function := range bench.Functions {
		if i > 0 {
			fmt.Fprintln(o.Stdout)
		}
		o.benchTable(function, b)
	}
	return nil
}

// benchTable prints one function: a row a way, and below what could not be measured.
func (o *output) benchTable(function string, b benched) {
	g := &screen.Table{Head: []string{strings.ToUpper(function), "NS", "SPREAD", "CALLS/S", "TO VDSO", ""}}
	longest := 0.0
	for _, f := range b.figures {
		longest = max(longest, f.Nanoseconds)
	}
	var absent []bench.Figure
	for _, f := range b.figures {
		switch {
		case f.Function != function:
		case f.Absent != "":
			absent = append(absent, f)
		default:
			g.Add([]string{
				f.Mode, figure.Number(f.Nanoseconds), figure.Number(f.Least) + " to " + figure.Number(f.Most),
				perSecond(f.PerSecond), ratio(f.Ratio), bars(f.Nanoseconds, longest),
			})
		}
	}
	g.Write(o.Stdout, o.Out)
	if slices.ContainsFunc(b.figures, func(f bench.Figure) bool { return f.Function == function && f.Ratio > 0 && f.Ratio < 1 }) {
		fmt.Fprintln(o.Stdout, "TO VDSO below 1 is noise: nothing is faster than the vDSO's own function.")
	}
	for _, f := range absent {
		o.Hanging(o.Out.Paint.Dim(screen.Pad(f.Mode, len("fallback-unhealed"), false))+screen.Gap, len("fallback-unhealed")+len(screen.Gap), "not here: "+f.Absent)
	}
}

// bars is a bar whose length is the logarithm of ns: twice the length is far more than twice the time.
func bars(ns, longest float64) string {
	// A nanosecond or less still gets a column.
	const least = 1
	n := math.Log10(max(ns, least)) / math.Log10(max(longest, 10*least))
	return strings.Repeat("#", 1+int(math.Round(n*(barWidth-1))))
}

// perSecond writes calls a second for people.
func perSecond(n float64) string {
	const mega, kilo = 1e6, 1e3
	switch {
	case n >= 10*mega:
		return fmt.Sprintf("%.0f M", n/mega)
	case n >= mega:
		return fmt.Sprintf("%.1f M", n/mega)
	}
	return fmt.Sprintf("%.0f k", n/kilo)
}

func ratio(r float64) string {
	switch {
	case r == 0:
		return "-"
	case r < 10:
		return fmt.Sprintf("%.2f", r)
	}
	return fmt.Sprintf("%.0f", r)
}

// redisLatencies are the points of the histogram that the table shows, in percent.
var redisLatencies = []float64{50, 95, 99, 99.9, 100}

// redis prints what redis-benchmark measured, both servers side by side.
func (o *output) redis(opts BenchOptions, image string, all []bench.Redis) error {
	if opts.json() {
		return o.document("bench", false, jsonBench{Image: image, Rounds: opts.rounds, Requests: opts.requests, Pipeline: opts.pipeline, Redis: all})
	}
	g := &screen.Table{Head: []string{"TEST", "SERVER", "REQUESTS/S", "SPREAD", "TO ORIGINAL", ""}}
	fastest, original := 0.0, map[string]float64{}
	for _, r := range all {
		fastest = max(fastest, r.PerSecond)
		if r.Mode == bench.Original {
			original[r.Test] = r.PerSecond
		}
	}
	h := &screen.Table{Head: []string{"ANSWERED WITHIN MS", "SERVER"}}
	for _, p := range redisLatencies {
		h.Head = append(h.Head, fmt.Sprintf("%g%%", p))
	}
	for _, r := range all {
		if r.Absent != "" {
			g.Add([]string{r.Test, r.Mode, "-", "-", "-", "not here: " + r.Absent})
			continue
		}
		to := 0.0
		if original[r.Test] > 0 {
			to = r.PerSecond / original[r.Test]
		}
		bar := strings.Repeat("#", max(1, int(math.Round(barWidth*r.PerSecond/fastest))))
		g.Add([]string{r.Test, r.Mode, fmt.Sprintf("%.0f", r.PerSecond), fmt.Sprintf("%.0f to %.0f", r.Least, r.Most), ratio(to), bar})
		row := []string{r.Test, r.Mode}
		for _, p := range redisLatencies {
			row = append(row, within(r.Latencies, p))
		}
		h.Add(row)
	}
	g.Write(o.Stdout, o.Out)
	if !h.Empty() {
		fmt.Fprintln(o.Stdout)
		h.Write(o.Stdout, o.Out)
	}
	return nil
}

// within returns the milliseconds in which this percentage was answered: the first point of the histogram
// that reaches it.
func within(all []bench.Latency, percent float64) string {
	for _, l := range all {
		if l.Percent >= percent {
			return fmt.Sprintf("%g", l.Milliseconds)
		}
	}
	return "-"
}

// drawFigures writes the drawing, completely or not at all.
func drawFigures(path string, b benched) error {
	format, err := figure.Format(path)
	if err != nil {
		return err
	}
	ways, all := make([]string, len(b.modes)), make([]figure.Measured, len(b.figures))
	for i, m := range b.modes {
		ways[i] = m.Name
	}
	for i, f := range b.figures {
		all[i] = figure.Measured{Way: f.Mode, Function: f.Function, Nanoseconds: f.Nanoseconds, Least: f.Least, Most: f.Most}
	}
	data, err := figure.Draw(format, b.title, ways, bench.Functions, all)
	if err != nil {
		return err
	}
	return atomicfile.Write(path, data)
}
