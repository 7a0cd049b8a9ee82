// The drawing of vfix bench --plot.

package main

import (
	"vfix.dev/vfix/host/bench"
	"vfix.dev/vfix/host/bench/figure"
	"vfix.dev/vfix/images/atomicfile"
)

// drawFigures writes the drawing, whole or not at all.
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
		all[i] = figure.Measured{Way: f.Mode, Function: f.Function, Nanoseconds: f.Nanoseconds}
	}
	data, err := figure.Draw(format, b.title, ways, bench.Functions, all)
	if err != nil {
		return err
	}
	return atomicfile.Write(path, data)
}
