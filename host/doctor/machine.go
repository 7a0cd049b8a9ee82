// The machine as the checks see it, real or recorded, and the tools of a check.

package doctor

import (
	"context"
	"strings"

	"vfix.dev/vfix/host/probe"
	"vfix.dev/vfix/internal/kernellog"
)

// machine is a host as the checks see it: the real one, or a recorded one.
type machine interface {
	// read returns a file's content, at most maxFile bytes of it.
	read(path string) ([]byte, error)
	// list returns the names in a directory.
	list(path string) ([]string, error)
	// execute runs a program of its own, without arguments.
	execute(ctx context.Context, program []byte) (probe.Outcome, error)
	// measure runs vfix-measure.
	measure(ctx context.Context, stdin []byte, args ...string) (probe.Outcome, error)
	// start runs vfix-measure in the background: see probe.Runner.Start.
	start(ctx context.Context, args ...string) (said func() (string, error), stop func() (probe.Outcome, error), err error)
	// kernelLog returns the kernel's messages, and their source.
	kernelLog(ctx context.Context) (lines []kernellog.Line, source string, err error)
	// scratch makes a directory in dir, "" for a temporary one, whose missing names the kernel
	// keeps in its cache.
	scratch(dir string) (path string, remove func() error, err error)
}

// maxFile is how much of a file is read at most: config-* and kern.log are the longest ones.
const maxFile = 64 << 20

// examination is a machine during one check.
type examination struct {
	machine
	Options
	ctx context.Context // ends the check
}

// ended is the value with which a check that cannot continue panics, for examine.
type ended struct{ err error }

// must ends the check on an error.
func must(err error) {
	if err != nil {
		panic(ended{err})
	}
}

// text returns what a file holds, "" if it cannot be read.
func (x *examination) text(path string) string {
	b, err := x.read(path)
	if err != nil {
		return ""
	}
	return string(b)
}

// line returns a file's only line, "" without one.
func (x *examination) line(path string) string {
	first, _, _ := strings.Cut(x.text(path), "\n")
	return strings.TrimSpace(first)
}

// field returns the text after a name and a colon in a file, "" without it.
func (x *examination) field(path, name string) string {
	for line := range strings.Lines(x.text(path)) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// run runs vfix-measure; the check ends if that is not possible.
func (x *examination) run(stdin []byte, args ...string) probe.Outcome {
	o, err := x.measure(x.ctx, stdin, args...)
	must(err)
	return o
}

// times measures subjects in turn: how often each, and how long (µs) each time.
func (x *examination) times(filter []byte, subjects ...string) (probe.Samples, probe.Outcome) {
	args := []string{"time", "15", "2000"}
	if x.Quick {
		args = []string{"time", "5", "500"}
	}
	if filter != nil {
		args = append([]string{"--filter"}, args...)
	}
	o := x.run(filter, append(args, subjects...)...)
	return probe.Times(o.Stdout), o
}

// quiet is the time of a subject undisturbed, which becomes a figure; false if it was not measured.
func (c *Check) quiet(t probe.Samples, subject, name string) (ns float64, ok bool) {
	if ns, ok = t.Quiet(subject); ok {
		c.figure(name, ns, "ns")
	}
	return ns, ok
}
