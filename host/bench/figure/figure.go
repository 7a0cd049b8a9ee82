// Package figure draws what vfix bench measured: one group of bars a way, one bar a function,
// nanoseconds a call on a logarithmic scale. It measures nothing and knows no ways.
package figure

import (
	"bytes"
	"fmt"
	"image/color"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
)

// Formats are the ends of file names that Format knows.
var Formats = []string{".svg", ".png"}

// Format returns the format that a file's name asks for, or an error that says which there are.
func Format(path string) (string, error) {
	ext := strings.ToLower(filepath.Ext(path))
	if !slices.Contains(Formats, ext) {
		return "", fmt.Errorf("%s: its name ends in none of %s", path, strings.Join(Formats, ", "))
	}
	return ext, nil
}

// Sizes of the drawing.
const (
	width      = 20 * vg.Centimeter
	groupSize  = 1.3 * vg.Centimeter // of the bars of one way
	margin     = 3.5 * vg.Centimeter // title, axis and legend
	barPart    = 0.8                 // of its group's height that bars take
	resolution = 150                 // of a PNG, dots per inch
)

// Colours that tell apart in print and for the colour-blind (Okabe and Ito, 2008).
var colours = []color.Color{
	color.RGBA{0x00, 0x72, 0xb2, 0xff}, color.RGBA{0xe6, 0x9f, 0x00, 0xff}, color.RGBA{0x00, 0x9e, 0x73, 0xff},
}

// Measured is one length to draw: what a function costs one way. One of 0 is left out.
type Measured struct {
	Way, Function string
	Nanoseconds   float64
}

// Draw returns the drawing, in a format of Formats: the ways from the top, in each of them the
// functions, and the title above.
func Draw(format, title string, ways, functions []string, all []Measured) ([]byte, error) {
	plot.DefaultFont = font.Font{Typeface: "Liberation", Variant: "Sans"}
	p := plot.New()
	p.Title.Text = title
	p.X.Label.Text = "nanoseconds a call (logarithmic)"
	p.X.Scale = plot.LogScale{}
	p.X.Tick.Marker = plot.LogTicks{Prec: -1}
	p.Y.Tick.Length = 0
	ways = slices.DeleteFunc(slices.Clone(ways), func(way string) bool { return !measured(all, way) })
	if len(ways) == 0 {
		return nil, fmt.Errorf("nothing was measured, so there is nothing to draw")
	}
	slices.Reverse(ways) // the axis goes upwards
	p.NominalY(ways...)
	p.Y.Min, p.Y.Max = -0.5, float64(len(ways))-0.5
	p.X.Min, p.X.Max = span(all)
	grid := plotter.NewGrid()
	grid.Horizontal.Width = 0
	p.Add(grid)
	p.Legend.Top = true
	p.Legend.YPosition = draw.PosCenter
	p.Legend.Padding = vg.Millimeter
	for i, function := range functions {
		b := &bars{colour: colours[i%len(colours)]}
		for row, way := range ways {
			for _, f := range all {
				if f.Way == way && f.Function == function && f.Nanoseconds > 0 {
					size := barPart / float64(len(functions))
					b.rows = append(b.rows, bar{float64(row) + barPart/2 - size*(float64(i)+0.5), size, f.Nanoseconds})
				}
			}
		}
		p.Add(b)
		p.Legend.Add(function, b)
	}
	height := vg.Length(len(ways))*groupSize + margin
	if format == ".png" {
		return drawPNG(p, height)
	}
	anchors := map[string]anchor{title: atMiddle, p.X.Label.Text: atMiddle}
	for _, words := range [][]string{ways, functions} { // beside the axis, and beside the colours
		for _, word := range words {
			anchors[word] = atEnd
		}
	}
	return drawSVG(p, height, anchors)
}

func measured(all []Measured, way string) bool {
	return slices.ContainsFunc(all, func(f Measured) bool { return f.Way == way && f.Nanoseconds > 0 })
}

// span returns whole powers of ten around all lengths, with room for the numbers.
func span(all []Measured) (low, high float64) {
	low, high = math.Inf(1), 0
	for _, f := range all {
		if f.Nanoseconds > 0 {
			low, high = min(low, f.Nanoseconds), max(high, f.Nanoseconds)
		}
	}
	const room = 3
	return math.Pow(10, math.Floor(math.Log10(low/room))), math.Pow(10, math.Ceil(math.Log10(high*room)))
}

// drawPNG draws a plot as a PNG.
func drawPNG(p *plot.Plot, height vg.Length) ([]byte, error) {
	c := vgimg.NewWith(vgimg.UseWH(width, height), vgimg.UseDPI(resolution))
	p.Draw(framed(draw.New(c)))
	var out bytes.Buffer
	_, err := vgimg.PngCanvas{Canvas: c}.WriteTo(&out)
	return out.Bytes(), err
}

// framed leaves a margin on all sides: the words at the left may be wider than measured.
func framed(c draw.Canvas) draw.Canvas {
	const frame, left = 4 * vg.Millimeter, 12 * vg.Millimeter
	return draw.Crop(c, left, -frame, frame, -frame)
}

// bar is one bar: where its middle is on the axis of ways, how thick it is, how long.
type bar struct{ at, size, ns float64 }

// bars draws the bars of a function. gonum's own begin at 0, which no logarithm has.
type bars struct {
	rows   []bar
	colour color.Color
}

func (b *bars) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	style := text.Style{Color: color.Black, Font: p.X.Tick.Label.Font, XAlign: draw.XLeft, YAlign: draw.YCenter, Handler: p.X.Tick.Label.Handler}
	for _, r := range b.rows {
		left, right := x(p.X.Min), x(r.ns)
		low, high := y(r.at-r.size/2), y(r.at+r.size/2)
		c.FillPolygon(b.colour, []vg.Point{{X: left, Y: low}, {X: right, Y: low}, {X: right, Y: high}, {X: left, Y: high}})
		c.FillText(style, vg.Point{X: right + vg.Millimeter, Y: y(r.at)}, Number(r.ns))
	}
}

// Thumbnail is the legend's sample.
func (b *bars) Thumbnail(c *draw.Canvas) {
	c.FillPolygon(b.colour, []vg.Point{c.Min, {X: c.Max.X, Y: c.Min.Y}, c.Max, {X: c.Min.X, Y: c.Max.Y}})
}

// Number writes nanoseconds with three digits that count.
func Number(ns float64) string {
	switch {
	case ns < 10:
		return fmt.Sprintf("%.2f", ns)
	case ns < 100:
		return fmt.Sprintf("%.1f", ns)
	}
	return fmt.Sprintf("%.0f", ns)
}
