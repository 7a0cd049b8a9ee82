// Bench prints what vfix costs and returns, each figure beside what it is measured against
// in the same run: machines are noisy, and a lone time says nothing.
//
//	go run ./tests/bench -vfix bin/vfix
package main

import (
	"flag"
	"fmt"
	"os"
	"slices"
)

// bench is what the parts share.
type bench struct {
	dir    string // temporary folder
	vfix   string // the program to measure
	rounds int
}

func main() {
	vfix := flag.String("vfix", "bin/vfix", "the vfix `program` to measure")
	rounds := flag.Int("rounds", 9, "how many `rounds` of calls; medians are printed")
	megabytes := flag.Int("image", 1000, "size of the image that is rebuilt, in uncompressed `megabytes`")
	flag.Parse()
	dir, err := os.MkdirTemp("", "vfix-bench")
	if err == nil {
		b := &bench{dir: dir, vfix: *vfix, rounds: *rounds}
		err = b.run(*megabytes)
		os.RemoveAll(dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func (b *bench) run(megabytes int) error {
	if err := b.calls(); err != nil {
		return fmt.Errorf("calls: %w", err)
	}
	if err := b.trace(); err != nil {
		return fmt.Errorf("vfix-trace: %w", err)
	}
	if err := b.fallback(); err != nil {
		return fmt.Errorf("fallback: %w", err)
	}
	// Before the scan: the kernel counts what a parent holds as memory of its child.
	if err := b.rebuild(int64(megabytes) * 1e6); err != nil {
		return fmt.Errorf("rebuild: %w", err)
	}
	if err := b.scan(); err != nil {
		return fmt.Errorf("scan: %w", err)
	}
	return nil
}

// median returns the middle of the values.
func median(v []float64) float64 {
	s := slices.Sorted(slices.Values(v))
	return s[len(s)/2]
}
