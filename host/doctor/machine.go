// The machine as the checks see it, real or recorded, and what one check found for the next.

package doctor

import (
	"context"
	"strings"

	"vfix.dev/vfix/host/probe"
	"vfix.dev/vfix/internal/kernellog"
)

// machine is what the checks see of a host: the real one, or a recorded one.
type machine interface {
	// read returns a file's content, at most maxFile bytes of it.
	read(path string) ([]byte, error)
	// list returns the names in a folder.
	list(path string) ([]string, error)
	// execute runs a program of its own, without arguments.
	execute(ctx context.Context, program []byte) (probe.Outcome, error)
	// measure runs vfix-measure.
	measure(ctx context.Context, stdin []byte, args ...string) (probe.Outcome, error)
	// start runs vfix-measure in the background: see probe.Runner.Start.
	start(ctx context.Context, args ...string) (said func() (string, error), stop func() (probe.Outcome, error), err error)
	// kernelLog returns the kernel's messages, and their source.
	kernelLog(ctx context.Context) (lines []kernellog.Line, source string, err error)
	// scratch makes a folder in dir, "" for a temporary one, whose missing names the kernel
	// keeps in its cache.
	scratch(dir string) (path string, remove func() error, err error)
}

// maxFile bounds what is read of a file: config-* and kern.log are the longest ones.
const maxFile = 64 << 20

// examination is a machine being examined, and what one check found for the next.
type examination struct {
	machine
	Options
}

// line returns a file's only line, "" without one.
func (x *examination) line(path string) string {
	b, err := x.read(path)
	if err != nil {
		return ""
	}
	first, _, _ := strings.Cut(string(b), "\n")
	return strings.TrimSpace(first)
}

// rounds are how often each subject is timed, and for how long (µs) each time.
func (x *examination) rounds() (rounds, sample string) {
	if x.Quick {
		return "5", "500"
	}
	return "15", "2000"
}

// times measures subjects in turn.
func (x *examination) times(ctx context.Context, filter []byte, subjects ...string) (probe.Samples, probe.Outcome, error) {
	rounds, sample := x.rounds()
	args := []string{"time", rounds, sample}
	if filter != nil {
		args = append([]string{"--filter"}, args...)
	}
	o, err := x.measure(ctx, filter, append(args, subjects...)...)
	return probe.Times(o.Stdout), o, err
}
