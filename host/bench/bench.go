// Package bench measures the cost of the vsyscall page, and the gain of vfix: each way to call time,
// gettimeofday and getcpu, on this host and within an image; and redis before and after.
//
// The measured programs run in separate processes, one for each way and round, the ways in turn, so that
// other load on the machine affects all alike. A figure is the median of the rounds.
package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"vfix.dev/vfix/host/probe"
)

// ErrUnsupported: this system cannot run x86-64 Linux programs.
var ErrUnsupported = errors.New("not supported")

// Functions are the three of the page, as figures name them. In a libc, getcpu is sched_getcpu.
var Functions = []string{"time", "gettimeofday", "getcpu"}

// The modes: ways to reach a function.
const (
	VDSO     = "vdso"          // the vDSO's function, called directly
	Libc     = "libc"          // this system's libc
	Patched  = "patched"       // the functions of an old libc, patched by vfix
	Fallback = "fallback"      // the same, caught by libvfix.so at the first call
	Syscall  = "syscall"       // the plain system call
	Page     = "page"          // the vsyscall page, where the kernel traps and emulates the call
	Original = "image"         // the libc of an image as it is
	Rebuilt  = "image-rebuilt" // the same, patched
)

// Modes are those of a host, in the expected order, fastest first; ImageModes are those of an image.
var (
	Modes      = []string{VDSO, Libc, Patched, Fallback, Syscall, Page}
	ImageModes = []string{VDSO, Rebuilt, Original, Syscall, Page}
)

// Programs are the programs to run; package shim has them.
type Programs struct {
	Measure     []byte // vfix-measure, static
	MeasureLibc []byte // vfix-measure-libc, dynamic
	Stubs       []byte // old functions that call the page
	TwinStubs   []byte // the same for the twin of the page
	TwinLibrary []byte // libvfix.so for the twin
}

// Options are the options of a measurement.
type Options struct {
	Programs Programs
	Rounds   int // samples of each figure
	Sample   int // microseconds that a sample takes
}

// Figure is the cost of one way to call one function.
type Figure struct {
	Function string `json:"function"`
	Mode     string `json:"mode"`
	// Nanoseconds a call: the median of the rounds, the least and the most of them; 0 if
	// it could not be measured.
	Nanoseconds float64 `json:"ns"`
	Least       float64 `json:"ns_least"`
	Most        float64 `json:"ns_most"`
	// Ratio is Nanoseconds divided by those of the vDSO, 0 without one. Below 1 it is noise.
	Ratio float64 `json:"ratio_to_vdso"`
	// Absent says why it could not be measured, "" if it was.
	Absent string `json:"absent"`
}

// RedisOptions are the choices of a redis measurement.
type RedisOptions struct {
	// Original and Rebuilt are root filesystems, directories of the caller.
	Original, Rebuilt string
	Requests          int // a test and round
	Rounds            int
	Pipeline          int
}

// Redis is the result of one server under redis-benchmark.
type Redis struct {
	Mode      string  `json:"mode"`                // Original or Rebuilt
	Test      string  `json:"test"`                // "SET" or "GET"
	PerSecond float64 `json:"requests_per_second"` // requests: the median of the rounds
	// Least and Most requests a second of the rounds.
	Least  float64 `json:"requests_per_second_least"`
	Most   float64 `json:"requests_per_second_most"`
	Absent string  `json:"absent"` // why it could not be measured
}

// candidate is one process a round.
type candidate struct {
	mode string
	run  func(ctx context.Context) (probe.Outcome, error)
	libc string // whose libc the program needs, "" for a static one
}

// samples are nanoseconds a call, one a round, by function and mode; absent has the reasons why there are none, by mode.
type samples struct {
	ns     map[[2]string][]float64
	absent map[string]string
}

// measure runs all rounds. A mode that fails once is left out of the rounds that follow.
func measure(ctx context.Context, rounds int, candidates []candidate) (*samples, error) {
	s := &samples{map[[2]string][]float64{}, map[string]string{}}
	for range rounds {
		for _, c := range candidates {
			if s.absent[c.mode] != "" {
				continue
			}
			o, err := c.run(ctx)
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			if why := failure(o, err, c.libc); why != "" {
				s.absent[c.mode] = why
				continue
			}
			s.read(c.mode, o.Stdout)
		}
	}
	if len(s.ns) == 0 {
		return nil, fmt.Errorf("nothing can be measured here: %s", s.absent[Syscall])
	}
	return s, nil
}

// failure says why a program failed, "" if it did not.
func failure(o probe.Outcome, err error, libc string) string {
	switch {
	case libc != "" && errors.Is(err, os.ErrNotExist):
		return libc + " has no glibc for x86-64 (/lib64/ld-linux-x86-64.so.2)"
	case err != nil:
		return err.Error()
	case o.Signal == probe.SIGSEGV:
		return "this kernel does not serve the vsyscall page: a call is SIGSEGV"
	case o.Signal == probe.SIGSYS:
		return "a seccomp filter kills what calls it"
	case !o.OK():
		return o.String()
	}
	return ""
}

// read parses the output of a program: "FUNCTION PICOSECONDS", or "WAY:FUNCTION NANOSECONDS".
func (s *samples) read(mode string, out []byte) {
	for line := range strings.Lines(string(out)) {
		var name string
		var ns float64
		if _, err := fmt.Sscan(line, &name, &ns); err != nil || ns <= 0 { // "absent"
			continue
		}
		if _, function, ok := strings.Cut(name, ":"); ok {
			name = function
		} else {
			ns /= 1000
		}
		if name == "sched_getcpu" {
			name = "getcpu"
		}
		key := [2]string{name, mode}
		s.ns[key] = append(s.ns[key], ns)
	}
}

func (s *samples) figures(modes []string) (all []Figure) {
	for _, function := range Functions {
		base := median(s.ns[[2]string{function, VDSO}])
		for _, mode := range modes {
			f := Figure{Function: function, Mode: mode, Absent: s.absent[mode]}
			ns := s.ns[[2]string{function, mode}]
			if len(ns) > 0 {
				f.Nanoseconds, f.Least, f.Most, f.Absent = median(ns), slices.Min(ns), slices.Max(ns), ""
			} else if f.Absent == "" {
				f.Absent = "it has no such function"
			}
			if base > 0 {
				f.Ratio = f.Nanoseconds / base
			}
			all = append(all, f)
		}
	}
	return all
}

// median returns the middle value, 0 of none.
func median(v []float64) float64 {
	if len(v) == 0 {
		return 0
	}
	v = slices.Sorted(slices.Values(v))
	return (v[len(v)/2] + v[(len(v)-1)/2]) / 2
}

// Conditions are the facts that figures depend on: the kernel, how it serves the page, and the day.
func Conditions() string {
	release, _ := os.ReadFile("/proc/sys/kernel/osrelease")
	maps, _ := os.ReadFile("/proc/self/maps")
	mode := map[string]string{"": "none", "--xp": "xonly", "r-xp": "emulate"}[probe.PagePerms(maps)]
	return fmt.Sprintf("Linux %s, vsyscall=%s, %s", strings.TrimSpace(string(release)), mode, time.Now().Format(time.DateOnly))
}
