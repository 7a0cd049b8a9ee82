// Whether this kernel gives processes a vDSO, its functions and their cost.

package doctor

import (
	"fmt"
	"slices"
	"strings"

	"vfix.dev/vfix/host/probe"
)

// clockSubjects are the functions that programs read clocks with, as vfix-measure names them.
var clockSubjects = []string{"time", "gettimeofday", "realtime", "monotonic", "realtime_coarse", "monotonic_coarse", "getcpu"}

// vdsoNeeded are the symbols that libcs and vfix look for, and which functions they are.
var vdsoNeeded = []string{"__vdso_time", "__vdso_gettimeofday", "__vdso_clock_gettime", "__vdso_getcpu"}

func checkVDSO(x *examination, c *Check) {
	image := x.run(nil, "vdso")
	if !image.OK() {
		c.fact("present", "no")
		c.found(Fail, "there is no vDSO")
		c.Means = "every program reads the clock by a system call, also programs that vfix patched"
		c.Do = "boot without vdso=0, or run on a kernel that has a vDSO (a sandbox such as gVisor has its own)"
		if option := bootOption(x.line("/proc/cmdline"), "vdso"); option != "" {
			c.fact("boot_option", "vdso="+option)
			c.Do = "take vdso=" + option + " off the kernel's command line"
		}
		return
	}
	c.fact("present", "yes")
	symbols, err := probe.VDSO(image.Stdout)
	if err != nil {
		c.note("its symbols cannot be read: %v", err)
	}
	missing := listSymbols(c, symbols)
	costOfVDSO(x, c, missing)
}

// listSymbols records the vDSO's own functions, with their versions, and returns which of the
// needed ones are not there.
func listSymbols(c *Check, symbols []probe.Symbol) (missing []string) {
	var own, versions []string
	for _, s := range symbols {
		if strings.HasPrefix(s.Name, "__vdso_") {
			own = append(own, s.Name)
			if !slices.Contains(versions, s.Version) {
				versions = append(versions, s.Version)
			}
		}
	}
	c.fact("symbols", strings.Join(own, " "))
	c.fact("versions", strings.Join(versions, " "))
	if len(own) > 0 {
		c.line("%s (version %s)", strings.ReplaceAll(strings.Join(own, ", "), "__vdso_", ""), strings.Join(versions, ", "))
	}
	if len(symbols) == 0 {
		return nil
	}
	for _, name := range vdsoNeeded {
		if !slices.Contains(own, name) {
			missing = append(missing, name)
		}
	}
	return missing
}

func costOfVDSO(x *examination, c *Check, missing []string) {
	var subjects []string
	for _, f := range clockSubjects {
		subjects = append(subjects, "vdso:"+f)
	}
	entries := x.run(nil, append([]string{"entries"}, subjects...)...)
	t, _ := x.times(nil, append(subjects, "syscall:monotonic")...)
	if !entries.OK() {
		c.note("kernel entries were not counted: no seccomp filter could be set (%s)", entries)
	}
	entered := probe.Entries(entries.Stdout)
	var slow []string
	for _, f := range clockSubjects {
		ns, ok := c.quiet(t, "vdso:"+f, "vdso_"+f)
		if !ok {
			continue
		}
		e, counted := entered["vdso:"+f]
		if counted {
			c.figure("vdso_"+f+"_kernel_entries", float64(e.Entered)/float64(e.Calls), "per call")
		}
		if e.Entered > 0 {
			slow = append(slow, f)
		}
		c.line("%-17s %9s  %s", f, nanoseconds(ns), entering(e, counted))
	}
	c.quiet(t, "syscall:monotonic", "syscall_monotonic")
	judgeVDSO(c, slow, missing)
}

func entering(e probe.Entry, counted bool) string {
	switch {
	case !counted:
		return "kernel entries not counted"
	case e.Entered == 0:
		return "stays in the process"
	case e.Entered == e.Calls:
		return "enters the kernel"
	}
	return fmt.Sprintf("enters the kernel in %d of %d calls", e.Entered, e.Calls)
}

func judgeVDSO(c *Check, slow, missing []string) {
	ns, _ := c.value("vdso_monotonic")
	plain, _ := c.value("syscall_monotonic")
	switch {
	case len(slow) > 0:
		c.found(Fail, "%d of %d functions enter the kernel: %s", len(slow), len(clockSubjects), strings.Join(slow, ", "))
		c.Means = fmt.Sprintf("reading these clocks costs every program a system call: clock_gettime %s", nanoseconds(ns))
		c.Do = "see the check clock: the clock source decides it"
	case len(missing) > 0:
		c.found(Warn, "it has no %s", strings.Join(missing, ", "))
		c.Means = "programs make a system call instead, also those that vfix patched"
		c.Do = "run on a newer kernel"
	default:
		c.found(OK, "clock_gettime costs %s and stays in the process; the system call costs %s", nanoseconds(ns), nanoseconds(plain))
		c.Means = "reading the clock is fast here, also in patched programs"
	}
}
