// Package doctor finds out how a host treats containers with legacy programs: whether and at what cost it
// serves the vsyscall page, the cost of reading a clock, the cost of neighbours on the same kernel, and other
// reasons why old programs fail on new hosts. It measures all that it can, and reports the rest.
//
// A check is a function from a machine (its files, and the runs of vfix-measure on it) to a
// Check, so that the checks can be tried on the recorded files of other machines.
package doctor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"vfix.dev/vfix/host/policy"
	"vfix.dev/vfix/images/inventory"
	"vfix.dev/vfix/internal/hinterr"
)

// Verdict is the outcome of a check.
type Verdict string

const (
	// OK: nothing here harms a container.
	OK Verdict = "ok"
	// Warn: legacy programs run, at a cost that the check names.
	Warn Verdict = "warn"
	// Fail: containers break, or are many times slower than necessary.
	Fail Verdict = "fail"
	// Skipped: could not be checked; Found says why.
	Skipped Verdict = "skipped"
)

// The checks, in their order.
const (
	Vsyscall   = "vsyscall"
	VDSO       = "vdso"
	Clock      = "clock"
	Seccomp    = "seccomp"
	Dentry     = "dentry"
	KernelLog  = "kernel-log"
	Cgroups    = "cgroups"
	Nofile     = "nofile"
	IA32       = "ia32"
	ASLR       = "aslr"
	Schema1    = "schema1"
	Policy     = "policy"
	Containers = "containers"
)

// all is how each check is made, in their order.
var all = []struct {
	name string
	make func(*examination, *Check)
}{
	{Vsyscall, checkVsyscall},
	{VDSO, checkVDSO},
	{Clock, checkClock},
	{Seccomp, checkSeccomp},
	{Dentry, checkDentry},
	{KernelLog, checkKernelLog},
	{Cgroups, checkCgroups},
	{Nofile, checkNofile},
	{IA32, checkIA32},
	{ASLR, checkASLR},
	{Schema1, checkSchema1},
	{Policy, checkPolicy},
	{Containers, checkContainers},
}

// Names are the names of all checks, in their order.
var Names = func() (names []string) {
	for _, each := range all {
		names = append(names, each.name)
	}
	return names
}()

// ErrUnsupported: not on this system.
var ErrUnsupported = errors.New("not supported")

// Check is what one check found.
type Check struct {
	Name    string   `json:"name"`
	Verdict Verdict  `json:"verdict"`
	Found   string   `json:"found"` // with the figure that decided
	Means   string   `json:"means"` // for containers
	Do      string   `json:"do"`    // "" for nothing
	Figures []Figure `json:"figures"`
	Facts   []Fact   `json:"facts"`
	Lines   []string `json:"lines"` // one for each log line, image or container that was found
	Notes   []string `json:"notes"` // what could not be found out, and what it would need
}

// Figure is something measured or counted.
type Figure struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
	Unit  string  `json:"unit"` // "ns", "entries", "names", "bytes", "instructions", "ratio", …
}

// Fact is something that was read.
type Fact struct {
	Name  string `json:"name"`
	Value string `json:"text"`
}

func (c *Check) figure(name string, value float64, unit string) {
	c.Figures = append(c.Figures, Figure{name, value, unit})
}

func (c *Check) fact(name, value string) { c.Facts = append(c.Facts, Fact{name, value}) }

func (c *Check) line(format string, a ...any) { c.Lines = append(c.Lines, fmt.Sprintf(format, a...)) }

func (c *Check) note(format string, a ...any) { c.Notes = append(c.Notes, oneLine(format, a...)) }

// found sets the verdict and the finding that decided it.
func (c *Check) found(v Verdict, format string, a ...any) {
	c.Verdict, c.Found = v, oneLine(format, a...)
}

// oneLine is fmt.Sprintf, with joined errors on one line.
func oneLine(format string, a ...any) string {
	return strings.ReplaceAll(fmt.Sprintf(format, a...), "\n", "; ")
}

// Options are the choices of a run.
type Options struct {
	Checks  []string      // names; empty: all
	Program []byte        // vfix-measure
	Limit   time.Duration // for each check
	Quick   bool          // fewer rounds, a smaller flood, no images
	// FloodDir is where the dentry check makes its directory, "" for a temporary directory whose missing names the
	// kernel caches.
	FloodDir string
	// Profile is a seccomp profile as docker takes it (JSON); nil is docker's default one.
	Profile []byte
	// Containers looks for images and containers that need vfix; nil if it cannot.
	Containers func(context.Context) (*inventory.Inventory, error)
	// Stock lists the images of local engines, and these with their versions; nil if it cannot.
	Stock func(context.Context) (engines []string, images []inventory.Stocked, err error)
	// Policy finds the configuration of vfix-runtime that is in force; nil if it cannot.
	Policy func() policy.InForce
	// Started gets each check that starts; nil is silence.
	Started func(name string)
}

// Report is what all checks found.
type Report struct {
	Checks []Check `json:"checks"`
}

// Failed returns the names of the checks that failed.
func (r *Report) Failed() (names []string) {
	for _, c := range r.Checks {
		if c.Verdict == Fail {
			names = append(names, c.Name)
		}
	}
	return names
}

// errLimit ends a check that takes too long.
var errLimit = errors.New("took too long")

func examine(ctx context.Context, m machine, o Options) (*Report, error) {
	r := &Report{}
	for _, each := range all {
		if len(o.Checks) > 0 && !slices.Contains(o.Checks, each.name) {
			continue
		}
		if o.Started != nil {
			o.Started(each.name)
		}
		c := Check{Name: each.name}
		limited, cancel := context.WithTimeoutCause(ctx, o.Limit, errLimit)
		err := c.made(&examination{m, o, limited}, each.make)
		cancel()
		switch {
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case errors.Is(err, errLimit):
			c.found(Skipped, "it took longer than %s", o.Limit)
			c.Do = "try again on a quieter machine, or with a longer --limit"
		case errors.Is(err, hinterr.ErrNoDaemon):
			c.found(Skipped, "%v", err)
			c.Do = "name an engine with DOCKER_HOST, or examine an image with vfix scan"
		case err != nil:
			c.found(Skipped, "%v", err)
		}
		r.Checks = append(r.Checks, c)
	}
	return r, nil
}

// made runs a check, and returns the error that ended it early.
func (c *Check) made(x *examination, check func(*examination, *Check)) (err error) {
	defer func() {
		switch p := recover().(type) {
		case nil:
		case ended:
			err = p.err
		default:
			panic(p)
		}
	}()
	check(x, c)
	return nil
}

// value returns a figure of the check by its name.
func (c *Check) value(name string) (float64, bool) {
	for _, f := range c.Figures {
		if f.Name == name {
			return f.Value, true
		}
	}
	return 0, false
}

// nanoseconds writes a time for people, with three significant digits.
func nanoseconds(ns float64) string {
	switch {
	case ns < 10:
		return fmt.Sprintf("%.1f ns", ns)
	case ns < 10_000:
		return fmt.Sprintf("%.0f ns", ns)
	case ns < 10_000_000:
		return fmt.Sprintf("%.0f µs", ns/1e3)
	}
	return fmt.Sprintf("%.0f ms", ns/1e6)
}
