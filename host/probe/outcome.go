// Package probe runs vfix-measure, the program that calls the vsyscall page and its alternatives, and parses its
// output. It judges nothing.
package probe

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Outcome is how a run of vfix-measure ended.
type Outcome struct {
	Stdout []byte
	Status int    // exit status; only if Signal is 0
	Signal int    // the signal that ended it, 0 for none
	Stderr string // its first line
}

// The exit statuses of vfix-measure (shim/src/measure/measure.h), and the signals that a call
// may end with (asm-generic/signal.h).
const (
	StatusAbsent = 4
	SIGSEGV      = 11
	SIGSYS       = 31
)

// OK reports whether it succeeded.
func (o Outcome) OK() bool { return o.Signal == 0 && o.Status == 0 }

// String says in words how it ended.
func (o Outcome) String() string {
	switch {
	case o.Signal == SIGSEGV:
		return "SIGSEGV"
	case o.Signal == SIGSYS:
		return "SIGSYS (a seccomp filter)"
	case o.Signal != 0:
		return fmt.Sprintf("signal %d", o.Signal)
	case o.Status == StatusAbsent:
		return "absent"
	case o.Status != 0 && o.Stderr != "":
		return fmt.Sprintf("status %d: %s", o.Status, o.Stderr)
	case o.Status != 0:
		return fmt.Sprintf("status %d", o.Status)
	}
	return "ok"
}

// Samples are the nanoseconds that vfix-measure printed for each subject, in its order.
type Samples map[string][]float64

// Times reads "SUBJECT NUMBER" lines; lines of another form are ignored.
func Times(out []byte) Samples {
	s := Samples{}
	for line := range strings.Lines(string(out)) {
		subject, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		v, err := strconv.ParseFloat(value, 64)
		if err == nil && v >= 0 {
			s[subject] = append(s[subject], v)
		}
	}
	return s
}

// Quiet returns the time of an undisturbed subject, 0 without samples: the tenth percentile. A busy machine makes
// calls slower and never faster, so the median is too high; the minimum may be an error of the clock.
func (s Samples) Quiet(subject string) float64 {
	if len(s[subject]) == 0 {
		return 0
	}
	v := slices.Sorted(slices.Values(s[subject]))
	const undisturbed = 10 // one sample in so many is not slower
	return v[len(v)/undisturbed]
}

// Entered reads "SUBJECT ENTERED/CALLS" lines: how many of the calls entered the kernel, from 0 to 1.
func Entered(out []byte) map[string]float64 {
	all := map[string]float64{}
	for line := range strings.Lines(string(out)) {
		var subject string
		var entered, calls float64
		if _, err := fmt.Sscanf(line, "%s %f/%f", &subject, &entered, &calls); err == nil && calls > 0 {
			all[subject] = entered / calls
		}
	}
	return all
}

// PagePerms returns how a text of /proc/PID/maps (proc_pid_maps(5)) shows the vsyscall page, such as "r-xp"; "" if it is
// not mapped.
func PagePerms(maps []byte) string {
	const columns = 6
	for line := range strings.Lines(string(maps)) {
		if f := strings.Fields(line); len(f) >= columns && f[len(f)-1] == "[vsyscall]" {
			return f[1]
		}
	}
	return ""
}
