// Package bench measures the cost of the vsyscall page, and the gain of vfix: each way to call time,
// gettimeofday and getcpu, on this host and within an image; and redis before and after.
//
// The measured programs run in separate processes, one for each way and round, the ways in turn, so that
// other load on the machine affects all alike. A figure is the median of the rounds.
package bench

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"vfix.dev/vfix/host/probe"
)

// Functions are the three of the page, as figures name them. In a libc, getcpu is sched_getcpu.
var Functions = []string{"time", "gettimeofday", "getcpu"}

// Mode is a way to reach a function.
type Mode struct {
	Name  string `json:"mode"`  // in JSON and tables
	About string `json:"about"` // for people
}

// Names of modes that others refer to.
const (
	VDSO      = "vdso"
	Libc      = "libc"
	Syscall   = "syscall"
	Page      = "page"
	Healed    = "fallback-healed"
	Unhealed  = "fallback-unhealed"
	Original  = "image"
	Rebuilt   = "image-rebuilt"
	formStart = "patched-" // before a form's name
)

// Modes are those of a host, in the expected order, fastest first.
var Modes = []Mode{
	{VDSO, "the vDSO's function, called directly"},
	{Libc, "this system's libc, by name"},
	{formStart + "entry", "patched, entry form: the function's head jumps to the trampoline"},
	{formStart + "lea", "patched, lea form: the register gets the trampoline's address"},
	{Healed, "libvfix.so, after the first call of a call site"},
	{Syscall, "the plain system call"},
	{formStart + "syscall", "patched, syscall form: the function makes the system call"},
	{Page, "the vsyscall page, where the kernel traps and emulates the call"},
	{Unhealed, "libvfix.so, each call by a SIGSEGV (VFIX_HEAL=0)"},
}

// ImageModes are those of vfix bench IMAGE.
var ImageModes = []Mode{
	{VDSO, "the vDSO's function, called directly"},
	{Rebuilt, "the image's libc, patched"},
	{Original, "the image's libc as it is"},
	{Syscall, "the plain system call"},
	{Page, "the vsyscall page, where the kernel traps and emulates the call"},
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
	// Ratio is Nanoseconds divided by those of the vDSO, 0 without one.
	Ratio float64 `json:"ratio_to_vdso"`
	// Absent says why it could not be measured, "" if it was.
	Absent string `json:"absent"`
	// PerSecond is the calls a second of one thread.
	PerSecond float64 `json:"calls_per_second"`
}

// Conditions are the facts that figures depend on: the kernel, how it serves the page, and the day.
func Conditions() string {
	release, _ := os.ReadFile("/proc/sys/kernel/osrelease")
	maps, _ := os.ReadFile("/proc/self/maps")
	mode := map[string]string{"": "none", "--xp": "xonly", "r-xp": "emulate"}[probe.PagePerms(maps)]
	return fmt.Sprintf("Linux %s, vsyscall=%s, %s", strings.TrimSpace(string(release)), mode, time.Now().Format(time.DateOnly))
}

// samples are nanoseconds a call, one a round, by function and mode; absent the reasons why
// there are none.
type samples struct {
	ns     map[[2]string][]float64
	absent map[[2]string]string
}

func newSamples() *samples {
	return &samples{map[[2]string][]float64{}, map[[2]string]string{}}
}

func (s *samples) add(function, mode string, ns float64) {
	key := [2]string{function, mode}
	s.ns[key] = append(s.ns[key], ns)
}

// miss notes why a mode cannot be measured, for all functions or for one.
func (s *samples) miss(mode, why string, functions ...string) {
	if len(functions) == 0 {
		functions = Functions
	}
	for _, f := range functions {
		s.absent[[2]string{f, mode}] = why
	}
}

func (s *samples) figures(modes []Mode) (all []Figure) {
	for _, function := range Functions {
		base := median(s.ns[[2]string{function, VDSO}])
		for _, m := range modes {
			key := [2]string{function, m.Name}
			f := Figure{Function: function, Mode: m.Name}
			switch ns := s.ns[key]; {
			case len(ns) > 0:
				f.Nanoseconds, f.Least, f.Most = median(ns), slices.Min(ns), slices.Max(ns)
				f.PerSecond = float64(time.Second) / f.Nanoseconds
				if base > 0 {
					f.Ratio = f.Nanoseconds / base
				}
			case s.absent[key] != "":
				f.Absent = s.absent[key]
			default:
				f.Absent = "not measured"
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
