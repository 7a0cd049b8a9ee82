// Mutants changes one package in many small ways, one at a time, and lists the changes that no test
// notices: conditions negated or moved by one, operands of && and || ignored, constants plus 1,
// statements removed, errors swallowed. Removed calls of locks and deferred Close are not tried:
// no result covers them. A change that has no effect counts as one that is not noticed.
//
// All mutants are compiled into one test program, and VFIX_MUTANT says which one is on: compiling each
// would take many times as long as testing it. A first run of each test records which mutants it comes
// by, and a mutant is tested by those tests alone, the fastest first. Tests run with every file system
// but the temporary ones read-only, and with processes and a network of their own: a mutant of what
// removes files is not to remove any.
//
// gremlins (0.6) and go-mutesting compile a test program for each mutant, and know neither swallowed
// errors nor which test reaches what.
//
// usage: mutants [-with PACKAGES] [-match REGEXP] [-least PERCENT] [-longest DURATION] [-v] PACKAGE (as root)
package main

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"os/signal"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"
)

type options struct {
	with    string
	match   string
	least   int
	longest time.Duration
	verbose bool
}

func main() {
	if len(os.Args) > 1 && os.Args[1] == inside {
		fmt.Fprintln(os.Stderr, "mutants: error:", confine(os.Args[2:]))
		os.Exit(125)
	}
	var o options
	flag.StringVar(&o.with, "with", "", "packages, separated by commas, whose tests are run as well")
	flag.StringVar(&o.match, "match", "", "test only mutants whose line of the list matches this")
	flag.IntVar(&o.least, "least", 0, "fail if fewer percent of the reached mutants are noticed")
	flag.DurationVar(&o.longest, "longest", 0, "leave out tests that take longer: they may notice mutants as well, never fewer")
	flag.BoolVar(&o.verbose, "v", false, "list the noticed mutants as well")
	flag.Parse()
	if flag.NArg() != 1 {
		fmt.Fprintln(os.Stderr, "usage: mutants [-with PACKAGES] [-match REGEXP] [-least PERCENT] [-longest DURATION] [-v] PACKAGE")
		os.Exit(2)
	}
	if err := run(o, flag.Arg(0)); err != nil {
		fmt.Fprintln(os.Stderr, "mutants: error:", err)
		os.Exit(1)
	}
}

func run(o options, pattern string) error {
	match, err := regexp.Compile(o.match)
	if err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "mutants-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	interrupted := make(chan os.Signal, 1)
	signal.Notify(interrupted, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	go func() {
		<-interrupted
		os.RemoveAll(work)
		os.Exit(130)
	}()

	began := time.Now()
	path, mutants, err := mutate(pattern, work)
	if err != nil {
		return err
	}
	packages := []string{path}
	if o.with != "" {
		packages = append(packages, strings.Split(o.with, ",")...)
	}
	t := &tester{work: work, mutants: len(mutants)}
	if err := t.build(packages); err != nil {
		return err
	}
	fmt.Printf("%s: %d mutants, compiled in %.0f s\n", path, len(mutants), time.Since(began).Seconds())
	if err := t.record(); err != nil {
		return err
	}
	t.leaveOut(o.longest)
	mutants = slices.DeleteFunc(mutants, func(m *mutant) bool { return !match.MatchString(m.String()) })
	t.all(mutants, o.verbose)
	return report(path, o.least, mutants)
}

// report prints how many mutants of each kind were noticed, and where none is reached.
func report(path string, least int, mutants []*mutant) error {
	type count [3]int // by verdict
	total, kinds, unreachedIn := count{}, map[kind]count{}, map[string]int{}
	for _, m := range mutants {
		c := kinds[m.kind]
		c[m.verdict]++
		kinds[m.kind] = c
		total[m.verdict]++
		if m.verdict == unreached {
			unreachedIn[m.file+": "+m.function]++
		}
	}
	for _, name := range slices.Sorted(maps.Keys(unreachedIn)) {
		fmt.Printf("no test reaches %d in %s\n", unreachedIn[name], name)
	}
	for _, k := range slices.Sorted(maps.Keys(kinds)) {
		fmt.Printf("  %-18s %4d noticed, %4d survived, %4d not reached\n", k, kinds[k][noticed], kinds[k][survived], kinds[k][unreached])
	}
	percent := 100
	if reached := total[noticed] + total[survived]; reached > 0 {
		percent = 100 * total[noticed] / reached
	}
	fmt.Printf("%s: %d%% of reached mutants noticed: %d noticed, %d survived, %d not reached\n",
		path, percent, total[noticed], total[survived], total[unreached])
	if percent < least {
		return fmt.Errorf("%s: %d%% of reached mutants noticed, want at least %d%%", path, percent, least)
	}
	return nil
}
