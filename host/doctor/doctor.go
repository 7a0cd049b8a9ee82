// Package doctor finds out what a host does to containers with legacy programs: whether and
// at what price it serves the vsyscall page, what reading a clock costs, what neighbours
// on the same kernel cost, and what else ends old programs on new hosts. It measures all that it can, and reports the rest.
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
)

// Verdict is the outcome of a check.
type Verdict string

const (
	// OK: nothing here harms a container.
	OK Verdict = "ok"
	// Warn: legacy programs run, at a price that the check names.
	Warn Verdict = "warn"
	// Fail: containers break, or pay many times what they need to.
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

// Names are the names of all checks, in their order.
var Names = []string{Vsyscall, VDSO, Clock, Seccomp, Dentry, KernelLog, Cgroups, Nofile, IA32, ASLR, Schema1, Policy, Containers}

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

// found sets the verdict and what decided it.
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
	// FloodDir is where the dentry check makes its folder, "" for a temporary folder that
	// keeps missing names in the cache.
	FloodDir string
	// Profile is a seccomp profile as docker takes it (JSON); nil is docker's default one.
	Profile []byte
	// Containers looks for images and containers that need vfix; nil if it cannot.
	Containers func(context.Context) (*Inventory, error)
	// Stock lists the images of local engines; nil if it cannot.
	Stock func(context.Context) (*Stock, error)
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
func (r *Report) Failed() []string {
	var names []string
	for _, c := range r.Checks {
		if c.Verdict == Fail {
			names = append(names, c.Name)
		}
	}
	return names
}

// checks is how each check is made. A check returns an error only where ctx ended.
var checks = map[string]func(context.Context, *examination, *Check) error{
	Vsyscall:   checkVsyscall,
	VDSO:       checkVDSO,
	Clock:      checkClock,
	Seccomp:    checkSeccomp,
	Dentry:     checkDentry,
	KernelLog:  checkKernelLog,
	Cgroups:    checkCgroups,
	Nofile:     checkNofile,
	IA32:       checkIA32,
	ASLR:       checkASLR,
	Schema1:    checkSchema1,
	Policy:     checkPolicy,
	Containers: checkContainers,
}

// errLimit ends a check that takes too long.
var errLimit = errors.New("took too long")

// examine makes the checks that o names on a machine.
func examine(ctx context.Context, m machine, o Options) (*Report, error) {
	names := o.Checks
	if len(names) == 0 {
		names = Names
	}
	x := &examination{machine: m, Options: o}
	r := &Report{}
	for _, name := range Names {
		if !slices.Contains(names, name) {
			continue
		}
		if o.Started != nil {
			o.Started(name)
		}
		c := Check{Name: name}
		limited, cancel := context.WithTimeoutCause(ctx, o.Limit, errLimit)
		err := checks[name](limited, x, &c)
		cancel()
		switch {
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case errors.Is(err, errLimit):
			c.found(Skipped, "it took longer than %s", o.Limit)
			c.Do = "try again on a quieter machine, or with a longer --limit"
		case errors.As(err, new(*ErrNoEngine)):
			c.found(Skipped, "%v", err)
			c.Do = "name an engine with DOCKER_HOST, or look into an image with vfix scan"
		case err != nil:
			c.found(Skipped, "%v", err)
		}
		r.Checks = append(r.Checks, c)
	}
	return r, nil
}
