// Bench prints what vfix costs and returns, each figure beside what it is measured against
// in the same run: machines are noisy, and a lone time says nothing.
//
//	go run ./tests/bench -vfix bin/vfix
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

// bench is what the parts share.
type bench struct {
	dir    string // temporary directory
	vfix   string // the program to measure
	before string // an earlier one, to take turns with it at the start of containers; "" for none
	alone  bool   // an empty program in the place of runc, if that is only in the way
	plot   string // a directory for the drawings of growth; "" for none
	curve  string // the one to measure of them; "" for all
	rounds int
}

func main() {
	vfix := flag.String("vfix", "bin/vfix", "the vfix `program` to measure")
	before := flag.String("before", "", "also measure rebuilding, directories of images, the start of containers and growth with this earlier vfix `program`")
	alone := flag.Bool("alone", false, "at the start of containers, have vfix-runtime execute an empty program in place of runc")
	rounds := flag.Int("rounds", 9, "how many `rounds` of calls, starts and lists; medians are printed")
	megabytes := flag.Int("image", 1000, "size of the image that is rebuilt, in uncompressed `megabytes`")
	only := flag.String("only", "", "measure this `part` alone: calls, trace, fallback, rebuild, unpack, batch, memory, scan, program, startup or growth")
	plot := flag.String("plot", "", "write the drawings of growth to this `directory`")
	curve := flag.String("curve", "", "of growth, measure these `curves` alone, separated by commas: size, files, scan, rootfiles, layers, images, bases")
	flag.Parse()
	// Hooks are executed in another directory.
	for _, program := range []*string{vfix, before} {
		if abs, err := filepath.Abs(*program); err == nil && *program != "" {
			*program = abs
		}
	}
	dir, err := os.MkdirTemp("", "vfix-bench")
	if err == nil {
		b := &bench{dir: dir, vfix: *vfix, before: *before, alone: *alone, plot: *plot, curve: *curve, rounds: *rounds}
		err = b.run(*only, *megabytes)
		os.RemoveAll(dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// run measures all parts, or the one that is named.
func (b *bench) run(only string, megabytes int) error {
	known := false
	for _, part := range []struct {
		name    string
		measure func() error
	}{
		{"calls", b.calls},
		{"trace", b.trace},
		{"fallback", b.fallback},
		// These before the scan: the kernel counts what a parent holds as memory of its child.
		{"rebuild", func() error { return b.rebuild(int64(megabytes) * 1e6) }},
		{"unpack", func() error { return b.unpack(int64(megabytes) * 1e6) }},
		{"batch", b.batch},
		{"memory", b.memory},
		{"scan", b.scan},
		{"program", b.program},
		{"startup", b.startup},
		{"growth", b.growth},
	} {
		if only != "" && only != part.name {
			continue
		}
		known = true
		if err := part.measure(); err != nil {
			return fmt.Errorf("%s: %w", part.name, err)
		}
	}
	if !known {
		return fmt.Errorf("-only %s: no such part", only)
	}
	return nil
}

// median returns the middle of the values.
func median(v []float64) float64 {
	s := slices.Sorted(slices.Values(v))
	return s[len(s)/2]
}
