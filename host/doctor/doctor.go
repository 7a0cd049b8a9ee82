// Package doctor finds out what this machine does to legacy programs: whether and at what cost its kernel serves
// the vsyscall page, what reading a clock costs, what a seccomp filter and neighbors on the same kernel add, and
// which programs have crashed on the page.
//
// Each check measures or reads a few values, and a function without side effects judges them.
package doctor

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"vfix.dev/vfix/host/probe"
	"vfix.dev/vfix/internal/hinterr"
)

// Verdict is the outcome of a check.
type Verdict string

const (
	// OK: nothing here harms a legacy program.
	OK Verdict = "ok"
	// Warn: legacy programs run, at a cost that the check names.
	Warn Verdict = "warn"
	// Fail: legacy programs crash, or are many times slower than necessary.
	Fail Verdict = "fail"
	// Skipped: could not be checked; Found says why.
	Skipped Verdict = "skipped"
)

// Check is the result of one check.
type Check struct {
	Name    string   `json:"name"`
	Verdict Verdict  `json:"verdict"`
	Found   string   `json:"found"` // with the value that decided
	Do      string   `json:"do"`    // "" for nothing
	Figures []Figure `json:"figures"`
	Details []string `json:"details"`
}

// Figure is a measured or counted value.
type Figure struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
	Unit  string  `json:"unit"` // "ns", "calls", "entries", "names", "processes"
}

func (c *Check) figure(name string, value float64, unit string) {
	if value > 0 {
		c.Figures = append(c.Figures, Figure{name, value, unit})
	}
}

func (c *Check) detail(format string, a ...any) {
	c.Details = append(c.Details, fmt.Sprintf(format, a...))
}

// found sets the verdict and what decided it.
func (c *Check) found(v Verdict, format string, a ...any) {
	c.Verdict, c.Found = v, strings.ReplaceAll(fmt.Sprintf(format, a...), "\n", "; ")
}

// Options are the choices of a run.
type Options struct {
	Checks []string // names; empty: all
	Quick  bool     // shorter measurements
}

// Report has the results of the checks, and the answer to the question that most people have.
type Report struct {
	// Answer says whether old images run here, and how slowly; "" if the page was not checked.
	Answer string `json:"answer"`
	// Mode is how the kernel serves the page; "" if it was not checked.
	Mode   Mode    `json:"vsyscall"`
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

// checks are all checks, in their order.
var checks = []struct {
	name string
	run  func(*machine, *Check, *Report) error
}{
	{"vsyscall", checkPage}, {"vdso", checkVDSO}, {"clock", checkClock},
	{"seccomp", checkSeccomp}, {"dentry", checkDentry}, {"kernel-log", checkLog},
}

// Names returns the names of all checks, in their order.
func Names() (names []string) {
	for _, c := range checks {
		names = append(names, c.name)
	}
	return names
}

// machine is the examined machine.
type machine struct {
	root  string // of its files
	quick bool
	ctx   context.Context
	// measure runs vfix-measure.
	measure func(ctx context.Context, stdin []byte, args ...string) (probe.Outcome, error)
}

// Run examines this machine.
func Run(ctx context.Context, o Options) (*Report, error) {
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" {
		return nil, hinterr.With(hinterr.Errorf(hinterr.ErrUnsupported, "vfix doctor works on linux/amd64 alone"),
			"run it on the machine or virtual machine whose kernel the containers use")
	}
	dir, err := probe.NewDir(nil)
	if err != nil {
		return nil, err
	}
	defer dir.Remove()
	m := &machine{root: "/", measure: dir.Run}
	return m.examine(ctx, o)
}

// examine runs the checks.
func (m *machine) examine(ctx context.Context, o Options) (*Report, error) {
	r := &Report{}
	m.quick, m.ctx = o.Quick, ctx
	for _, each := range checks {
		if len(o.Checks) > 0 && !slices.Contains(o.Checks, each.name) {
			continue
		}
		c := Check{Name: each.name}
		err := each.run(m, &c, r)
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if err != nil {
			c.found(Skipped, "%v", err)
		}
		r.Checks = append(r.Checks, c)
	}
	return r, nil
}

// read returns the content of a file, as far as it can be read.
func (m *machine) read(path string) []byte {
	b, _ := os.ReadFile(filepath.Join(m.root, path))
	return b
}

// line returns the first line of a file, "" if it cannot be read.
func (m *machine) line(path string) string {
	first, _, _ := strings.Cut(string(m.read(path)), "\n")
	return strings.TrimSpace(first)
}

// output runs vfix-measure, with stdin to read, and returns what it prints.
func (m *machine) output(stdin []byte, args ...string) ([]byte, error) {
	o, err := m.measure(m.ctx, stdin, args...)
	if err == nil && !o.OK() {
		err = fmt.Errorf("vfix-measure ended with %s", o)
	}
	return o.Stdout, err
}

// times measures subjects in turn, under a seccomp filter if it is not nil.
func (m *machine) times(filter []byte, subjects ...string) (probe.Samples, error) {
	args := []string{"time", "15", "2000"} // rounds, and microseconds of each
	if m.quick {
		args = []string{"time", "5", "500"}
	}
	if filter != nil {
		args = append([]string{"--filter"}, args...)
	}
	out, err := m.output(filter, append(args, subjects...)...)
	return probe.Times(out), err
}

// nanoseconds writes a duration for people.
func nanoseconds(ns float64) string {
	switch {
	case ns < 10:
		return fmt.Sprintf("%.1f ns", ns)
	case ns < 10_000:
		return fmt.Sprintf("%.0f ns", ns)
	}
	return fmt.Sprintf("%.0f µs", ns/1e3)
}
