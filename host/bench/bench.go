// Package bench measures the cost of the vsyscall page, and the gain of vfix: each way to call time,
// gettimeofday and getcpu, on this host and within an image; and redis before and after.
//
// The measured programs run in separate processes, one for each way and round, the ways in turn, so that
// other load on the machine affects all alike. A figure is the median of the rounds.
package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"vfix.dev/vfix/host/probe"
	"vfix.dev/vfix/internal/hinterr"
)

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

// Options are the options of a measurement.
type Options struct {
	Rounds int // samples of each figure
	Sample int // microseconds that a sample takes
	// Original and Rebuilt are root filesystems, directories of the caller, whose libc is measured; "": this host is.
	Original, Rebuilt string
	// Requests is how many requests their redis-server gets in each round and test, in place of the libc; 0: none.
	Requests int
}

// Figure is the cost of one way to call one function, or the rate of a server in one test of redis-benchmark.
type Figure struct {
	Function string `json:"function"`
	Mode     string `json:"mode"`
	// Value is nanoseconds a call, or requests a second: the median of the rounds. Least and Most are of the rounds. All
	// are 0 if it could not be measured.
	Value float64 `json:"value"`
	Least float64 `json:"least"`
	Most  float64 `json:"most"`
	// Ratio is Value divided by that of the vDSO, or of the original server; 0 without one. Below 1 it is noise.
	Ratio float64 `json:"ratio"`
	// Absent says why it could not be measured, "" if it was.
	Absent string `json:"absent"`
}

// candidate is one process a round, which returns a value for each function.
type candidate struct {
	mode string
	run  func(ctx context.Context) (map[string]float64, error)
}

// measure runs all rounds, and returns the figures of each function, in the order of the candidates. A mode that fails
// once is left out of the rounds that follow. Ratios are to the mode base.
func measure(ctx context.Context, rounds int, candidates []candidate, functions []string, base string) ([]Figure, error) {
	values, absent := map[[2]string][]float64{}, map[string]string{}
	for range rounds {
		for _, c := range candidates {
			if absent[c.mode] != "" {
				continue
			}
			got, err := c.run(ctx)
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			if err != nil {
				absent[c.mode] = err.Error()
			}
			for function, value := range got {
				key := [2]string{function, c.mode}
				values[key] = append(values[key], value)
			}
		}
	}
	if len(values) == 0 {
		return nil, hinterr.With(fmt.Errorf("nothing can be measured here: %s", strings.Join(slices.Sorted(maps.Values(absent)), "; ")),
			"'vfix doctor' shows how this kernel serves the vsyscall page; 'vfix bench --help' lists what is needed")
	}
	var all []Figure
	for _, function := range functions {
		for _, c := range candidates {
			f := Figure{Function: function, Mode: c.mode}
			if v := values[[2]string{function, c.mode}]; len(v) > 0 {
				f.Value, f.Least, f.Most = median(v), slices.Min(v), slices.Max(v)
			} else {
				f.Absent = cmp.Or(absent[c.mode], "it has no such function")
			}
			if b := median(values[[2]string{function, base}]); b > 0 {
				f.Ratio = f.Value / b
			}
			all = append(all, f)
		}
	}
	return all, nil
}

// succeeded returns an error for a program that failed; libc is whose libc it needs, "" for a static one.
func succeeded(o probe.Outcome, err error, libc string) error {
	switch {
	case libc != "" && errors.Is(err, os.ErrNotExist):
		return errors.New(libc + " has no glibc for x86-64 (/lib64/ld-linux-x86-64.so.2)")
	case err != nil:
		return err
	case o.Signal == probe.SIGSEGV:
		return errors.New("this kernel does not serve the vsyscall page: a call is SIGSEGV")
	case !o.OK():
		return errors.New(o.String())
	}
	return nil
}

// calls is a candidate that runs a program, which prints "FUNCTION NANOSECONDS", or "WAY:FUNCTION NANOSECONDS".
func calls(mode, libc string, run func(ctx context.Context) (probe.Outcome, error)) candidate {
	return candidate{mode, func(ctx context.Context) (map[string]float64, error) {
		o, err := run(ctx)
		if err := succeeded(o, err, libc); err != nil {
			return nil, err
		}
		ns := map[string]float64{}
		for name, values := range probe.Times(o.Stdout) {
			ns[name[strings.Index(name, ":")+1:]] = values[0]
		}
		return ns, nil
	}}
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
