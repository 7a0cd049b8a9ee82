// The drawing of vfix bench --plot.

package main

import (
	"os"
	"path/filepath"

	"vfix.dev/vfix/host/bench"
	"vfix.dev/vfix/host/bench/figure"
)

// drawFigures writes the drawing, whole or not at all.
func drawFigures(path string, b benched) (err error) {
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
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			os.Remove(f.Name())
		}
	}()
	const readable = 0o644
	_, err = f.Write(data)
	for _, step := range []func() error{func() error { return f.Chmod(readable) }, f.Close} {
		if stepErr := step(); err == nil {
			err = stepErr
		}
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	return err
}
