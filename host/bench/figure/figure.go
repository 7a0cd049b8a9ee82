// Package figure draws measurements: bars, one group for each way and one bar for each function, and lines
// that show how a cost grows; both on logarithmic scales, as SVG or PNG. It measures nothing.
package figure

import (
	"fmt"
	"image/color"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"
)

// Formats are the ends of file names that Format knows.
var Formats = []string{".svg", ".png"}

// Format returns the format that a file's name selects, or an error that lists the formats.
func Format(path string) (string, error) {
	ext := strings.ToLower(filepath.Ext(path))
	if !slices.Contains(Formats, ext) {
		return "", fmt.Errorf("%s: unknown extension, want one of %s", path, strings.Join(Formats, ", "))
	}
	return ext, nil
}

// Sizes of a drawing, in pixels of an SVG.
const (
	width      = 760.0
	groupSize  = 50.0 // of the bars of one way
	barPart    = 0.8  // of its group's height that bars take
	lineHeight = 340.0
	margin     = 16.0 // on all sides
	gap        = 6.0  // between a mark and its text
	row        = 20.0 // of text
	letter     = 0.58 // a letter's width is at most this part of the font's size, on average
)

// Colors that are distinct in print and for the colour-blind (Okabe and Ito, 2008).
var colours = []color.RGBA{
	{0x00, 0x72, 0xb2, 0xff}, {0xe6, 0x9f, 0x00, 0xff}, {0x00, 0x9e, 0x73, 0xff}, {0xd5, 0x5e, 0x00, 0xff}, {0xcc, 0x79, 0xa7, 0xff},
}

var (
	black = color.RGBA{A: 0xff}
	grey  = color.RGBA{0xd0, 0xd0, 0xd0, 0xff}
)

// Measured is one length to draw: the cost of a function called one way. A length of 0 is left out. Least and
// Most are the ends of the spread, 0 for none.
type Measured struct {
	Way, Function            string
	Nanoseconds, Least, Most float64
}

// origin is where all bars begin, in nanoseconds: on a logarithmic scale only bars of one origin can be compared.
const origin = 1

// Draw returns the bars, in a format of Formats: the ways from the top, in each of them the
// functions, and the lines of the title above.
func Draw(format, title string, ways, functions []string, all []Measured) ([]byte, error) {
	of := map[[2]string]Measured{}
	longest := 0.0
	for _, m := range all {
		if m.Nanoseconds > 0 {
			of[[2]string{m.Way, m.Function}] = m
			longest = max(longest, m.Nanoseconds, m.Most)
		}
	}
	ways = slices.DeleteFunc(slices.Clone(ways), func(way string) bool {
		return !slices.ContainsFunc(all, func(m Measured) bool { return m.Way == way && m.Nanoseconds > 0 })
	})
	if len(ways) == 0 {
		return nil, fmt.Errorf("nothing to draw: nothing was measured")
	}
	const room = 3 // for the numbers behind the bars
	left, right := margin+widest(ways)+gap, width-margin-widest(functions)-3*row
	top := below(title)
	bottom := top + groupSize*float64(len(ways))
	d := &drawing{width: width, height: bottom + 2*row + margin}
	x := newAxis(origin, longest*room, left, right)
	d.heading(title, left, right)
	d.below(x, top, bottom, "nanoseconds a call (logarithmic)")
	size := groupSize * barPart / float64(len(functions))
	for w, way := range ways {
		middle := top + groupSize*(float64(w)+0.5)
		d.text(left-gap, middle, atEnd, way)
		for f, function := range functions {
			if m, ok := of[[2]string{way, function}]; ok {
				y, end := middle-groupSize*barPart/2+size*float64(f), max(x.at(m.Nanoseconds), left)
				d.rect(left, y, end-left, size, colours[f%len(colours)])
				if from, to := max(x.at(m.Least), left), x.at(m.Most); m.Least > 0 && from < to {
					d.line(point{from, y + size/2}, point{to, y + size/2}, 1, black)
					end = max(end, to)
				}
				d.text(end+gap, y+size/2, atStart, Number(m.Nanoseconds))
			}
		}
	}
	d.legend(functions, (top+bottom)/2-row*float64(len(functions))/2)
	return d.write(format)
}

// Line is a cost that grows: values Y at X, both more than 0.
type Line struct {
	Name string
	X, Y []float64
}

// Lines returns curves under the lines of a title on two logarithmic axes, in a format of Formats: a line of
// slope 1 is proportional to its cause.
func Lines(format, title, xLabel, yLabel string, all []Line) ([]byte, error) {
	var xs, ys []float64
	names := make([]string, len(all))
	for i, l := range all {
		xs, ys, names[i] = append(xs, l.X...), append(ys, l.Y...), l.Name
	}
	if len(xs) == 0 || len(xs) != len(ys) || slices.Min(xs) <= 0 || slices.Min(ys) <= 0 {
		return nil, fmt.Errorf("%s: want as many values as places, all positive; got %d and %d", title, len(ys), len(xs))
	}
	left, right := margin+80, width-margin-widest(names)-3*row
	top := below(title)
	bottom := top + lineHeight
	d := &drawing{width: width, height: bottom + 2*row + margin}
	x, y := newAxis(slices.Min(xs), slices.Max(xs), left, right), newAxis(slices.Min(ys), slices.Max(ys), bottom, top)
	first, more, _ := strings.Cut(title, "\n")
	d.heading(first+": "+yLabel+"\n"+more, left, right)
	d.below(x, top, bottom, xLabel)
	for _, v := range y.ticks() {
		d.line(point{left, y.at(v)}, point{right, y.at(v)}, 1, grey)
		d.text(left-gap, y.at(v), atEnd, fmt.Sprintf("%g", v))
	}
	for i, l := range all {
		for n := range l.X {
			p := point{x.at(l.X[n]), y.at(l.Y[n])}
			if n > 0 {
				d.line(point{x.at(l.X[n-1]), y.at(l.Y[n-1])}, p, 2, colours[i%len(colours)])
			}
			const dot = 6
			d.rect(p.x-dot/2, p.y-dot/2, dot, dot, colours[i%len(colours)])
		}
	}
	d.legend(names, top)
	return d.write(format)
}

// axis is a logarithmic scale between two places of a drawing, over whole powers of ten.
type axis struct{ low, high, from, to float64 }

func newAxis(low, high, from, to float64) axis {
	a := axis{math.Floor(math.Log10(low)), math.Ceil(math.Log10(high)), from, to}
	a.high = max(a.high, a.low+1)
	return a
}

func (a axis) at(v float64) float64 {
	return a.from + (math.Log10(v)-a.low)/(a.high-a.low)*(a.to-a.from)
}

func (a axis) ticks() (all []float64) {
	for e := a.low; e <= a.high; e++ {
		all = append(all, math.Pow(10, e))
	}
	return all
}

// below is where the drawing begins under a title of so many lines.
func below(title string) float64 { return margin + row*float64(2+strings.Count(title, "\n")) }

func (d *drawing) heading(title string, left, right float64) {
	y := margin + row/2
	for line := range strings.SplitSeq(title, "\n") {
		d.text((left+right)/2, y, atMiddle, line)
		y += row
	}
}

// below draws the grid of the horizontal axis, its numbers and their meaning.
func (d *drawing) below(x axis, top, bottom float64, label string) {
	for _, v := range x.ticks() {
		d.line(point{x.at(v), top}, point{x.at(v), bottom}, 1, grey)
		d.text(x.at(v), bottom+row/2, atMiddle, fmt.Sprintf("%g", v))
	}
	d.text((x.from+x.to)/2, bottom+3*row/2, atMiddle, label)
}

// legend explains the colours, at the right.
func (d *drawing) legend(names []string, top float64) {
	const sample = 12
	for i, name := range names {
		y := top + row*(float64(i)+0.5)
		d.rect(width-margin-sample, y-sample/2, sample, sample, colours[i%len(colours)])
		d.text(width-margin-sample-gap, y, atEnd, name)
	}
}

// widest is about the width of the longest of the words.
func widest(words []string) float64 {
	n := 0
	for _, w := range words {
		n = max(n, utf8.RuneCountInString(w))
	}
	return float64(n) * fontSize * letter
}

// Number writes nanoseconds with three significant digits.
func Number(ns float64) string {
	switch {
	case ns < 10:
		return fmt.Sprintf("%.2f", ns)
	case ns < 100:
		return fmt.Sprintf("%.1f", ns)
	}
	return fmt.Sprintf("%.0f", ns)
}
