// The chart: nanoseconds of each call, on a logarithmic scale.

package bench

import (
	"fmt"
	"io"
	"math"
	"slices"

	chart "github.com/wcharczuk/go-chart/v2"
	"github.com/wcharczuk/go-chart/v2/drawing"
)

// colors are those of the functions, in their order.
var colors = []drawing.Color{drawing.ColorFromHex("3b6ea5"), drawing.ColorFromHex("e08e45"), drawing.ColorFromHex("5a9a68")}

// Chart writes an SVG: a group of bars for each mode, in it a bar for each function.
func Chart(w io.Writer, title string, figures []Figure) error {
	ns := map[[2]string]float64{}
	decades := 1.0 // of the scale, which begins at 1 ns
	var modes []string
	for _, f := range figures {
		ns[[2]string{f.Mode, f.Function}] = f.Value
		decades = max(decades, math.Ceil(math.Log10(max(f.Value, 1))))
		if !slices.Contains(modes, f.Mode) {
			modes = append(modes, f.Mode)
		}
	}
	c := chart.BarChart{
		Title:      fmt.Sprintf("%s: ns per call of %s, %s and %s, from left to right", title, Functions[0], Functions[1], Functions[2]),
		TitleStyle: chart.Style{FontSize: 9}, Background: chart.Style{Padding: chart.Box{Top: 50, Left: 20, Right: 20, Bottom: 40}},
		XAxis: chart.Style{FontSize: 9, TextWrap: chart.TextWrapNone}, YAxis: chart.YAxis{Style: chart.Style{FontSize: 9}},
		Width: 960, Height: 420, BarWidth: 32, BarSpacing: 4,
	}
	for _, m := range modes {
		for i, function := range Functions {
			bar := chart.Value{Value: math.Log10(max(ns[[2]string{m, function}], 1)), Style: chart.Style{FillColor: colors[i], StrokeColor: colors[i]}}
			if i == len(Functions)/2 {
				bar.Label = m
			}
			c.Bars = append(c.Bars, bar)
		}
		c.Bars = append(c.Bars, chart.Value{Style: chart.Style{FillColor: drawing.ColorTransparent, StrokeColor: drawing.ColorTransparent}}) // a gap
	}
	for d := range int(decades) + 1 {
		c.YAxis.Ticks = append(c.YAxis.Ticks, chart.Tick{Value: float64(d), Label: fmt.Sprintf("%.0f ns", math.Pow10(d))})
	}
	c.YAxis.Range = &chart.ContinuousRange{Max: decades}
	return c.Render(chart.SVG, w)
}
