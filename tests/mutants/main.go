// Mutants changes one package in many small ways, one at a time, and lists the changes that no test
// notices: conditions negated or moved by one, operands of && and || ignored, constants plus 1,
// statements removed, errors swallowed. Removed calls of locks and deferred Close are not tried:
// no result covers them.
//
// All mutants are compiled into one test program, and VFIX_MUTANT says which one is on: compiling each
// would take many times as long as testing it. A first run of each test records which mutants it comes
// by, and a mutant is tested by those tests alone, the fastest first. Tests run with every file system
// but the temporary ones read-only, and with processes and a network of their own: a mutant of what
// removes files is not to remove any.
//
// The list of mutants that change nothing (equivalent.txt) has a line for each and the reason; a line
// for a mutant that is not there any more, or that a test notices, is an error.
//
// gremlins (0.6) and go-mutesting compile a test program for each mutant, and know neither swallowed
// errors nor which test reaches what.
//
// usage: mutants [-with PACKAGES] [-part K/N] [-match REGEXP] [-least PERCENT] [-longest DURATION] PACKAGE (as root)
package main

import (
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"strings"
	"syscall"
	"time"
)

type options struct {
	with    string
	part    string
	match   string
	least   int
	longest time.Duration
	jobs    int
	list    bool
	verbose bool
}

func main() {
	if len(os.Args) > 1 && os.Args[1] == inside {
		fmt.Fprintln(os.Stderr, "mutants: error:", confine(os.Args[2:]))
		os.Exit(125)
	}
	var o options
	flag.StringVar(&o.with, "with", "", "packages, separated by commas, whose tests are run as well")
	flag.StringVar(&o.part, "part", "1/1", "test each N-th mutant alone, from the K-th")
	flag.StringVar(&o.match, "match", "", "test the mutants alone whose line of the list matches this")
	flag.IntVar(&o.least, "least", 0, "fail if fewer percent of the reached mutants are noticed")
	flag.DurationVar(&o.longest, "longest", 0, "leave out tests that take longer: they may notice mutants as well, never fewer")
	flag.IntVar(&o.jobs, "jobs", 2, "mutants tested side by side")
	flag.BoolVar(&o.list, "list", false, "list the mutants, test none")
	flag.BoolVar(&o.verbose, "v", false, "list the noticed mutants as well")
	flag.Parse()
	if flag.NArg() != 1 {
		fmt.Fprintln(os.Stderr, "usage: mutants [-with PACKAGES] [-part K/N] [-match REGEXP] [-least PERCENT] [-longest DURATION] PACKAGE")
		os.Exit(2)
	}
	ok, err := run(o, flag.Arg(0))
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutants: error:", err)
		os.Exit(1)
	}
	if !ok {
		os.Exit(1)
	}
}

func run(o options, pattern string) (bool, error) {
	var k, n int
	if _, err := fmt.Sscanf(o.part, "%d/%d", &k, &n); err != nil || k < 1 || k > n {
		return false, fmt.Errorf("-part %s: want K/N, such as 1/4", o.part)
	}
	match, err := regexp.Compile(o.match)
	if err != nil {
		return false, err
	}
	work, err := os.MkdirTemp("", "mutants-")
	if err != nil {
		return false, err
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
	p, err := load(pattern, work)
	if err != nil {
		return false, err
	}
	if o.list {
		for _, m := range p.mutants {
			fmt.Println(m)
		}
		return true, nil
	}
	packages := []string{p.path}
	if o.with != "" {
		packages = append(packages, strings.Split(o.with, ",")...)
	}
	t := &tester{work: work, mutants: len(p.mutants)}
	if err := t.build(p, packages); err != nil {
		return false, err
	}
	fmt.Printf("%s: %d mutants, compiled in %.0f s\n", p.path, len(p.mutants), time.Since(began).Seconds())
	if err := t.record(o.jobs); err != nil {
		return false, err
	}
	t.leaveOut(o.longest)
	fmt.Printf("%d tests take %.1f s one by one\n", len(t.tests), t.total().Seconds())

	var chosen []*mutant
	for i, m := range p.mutants {
		if i%n == k-1 && match.MatchString(m.Key()) {
			chosen = append(chosen, m)
		}
	}
	verdicts := t.all(chosen, o.jobs, o.verbose)
	return report(p, o, chosen, verdicts, n == 1 && o.match == "")
}
