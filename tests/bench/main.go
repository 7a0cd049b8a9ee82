// Bench measures vfix as whole commands, each beside what it is compared with, in turn in the same run:
// machines are noisy, and a lone time says nothing.
//
//	go run ./tests/bench -vfix bin/vfix [-before OLD/vfix] [PART...]
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
	before string // an earlier one, to compare with; "" for none
	rounds int
	size   int64 // of the image that is rebuilt, in uncompressed bytes
}

// parts are what can be measured, in order.
var parts = []struct {
	name    string
	measure func(*bench) error
}{
	{"calls", (*bench).calls},
	{"version", (*bench).version},
	{"scan", (*bench).scan},
	{"rebuild", (*bench).rebuild},
	{"start", (*bench).start},
}

func main() {
	b := &bench{}
	flag.StringVar(&b.vfix, "vfix", "bin/vfix", "the vfix `program` to measure; its vfix-runtime is in the same directory")
	flag.StringVar(&b.before, "before", "", "an earlier vfix `program` to compare with")
	flag.IntVar(&b.rounds, "rounds", 9, "how many `rounds`; medians are printed")
	megabytes := flag.Int64("image", 1000, "size of the image that is rebuilt, in uncompressed `megabytes`")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: bench [OPTIONS] [calls|version|scan|rebuild|start]...")
		flag.PrintDefaults()
	}
	flag.Parse()
	b.size = *megabytes * 1e6
	if err := b.run(flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// run measures the named parts, or all.
func (b *bench) run(names []string) (err error) {
	// Hooks are executed in another directory.
	for _, program := range []*string{&b.vfix, &b.before} {
		if *program == "" {
			continue
		}
		if *program, err = filepath.Abs(*program); err != nil {
			return err
		}
	}
	if b.dir, err = os.MkdirTemp("", "vfix-bench"); err != nil {
		return err
	}
	defer os.RemoveAll(b.dir)
	for _, part := range parts {
		if len(names) > 0 && !slices.Contains(names, part.name) {
			continue
		}
		if err := part.measure(b); err != nil {
			return fmt.Errorf("%s: %w", part.name, err)
		}
	}
	return nil
}

// variants returns the command for the measured vfix and, if there is one, the earlier vfix.
func (b *bench) variants(make func(vfix, name string) command) []command {
	all := []command{make(b.vfix, "vfix")}
	if b.before != "" {
		all = append(all, make(b.before, "before"))
	}
	return all
}
