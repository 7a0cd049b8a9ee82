// The cost of a clock read: whether there is a vDSO, and whether it can read the clock source.

package doctor

import (
	"cmp"
	"strings"

	"vfix.dev/vfix/host/probe"
)

// functions are those with which programs read clocks, as vfix-measure names them.
var functions = []string{"time", "gettimeofday", "realtime", "monotonic", "realtime_coarse", "monotonic_coarse", "getcpu"}

// clocks measures functions of the vDSO, and monotonic as a system call; and how many of the calls of each enter the
// kernel, from 0 to 1, which a seccomp filter counts.
func (m *machine) clocks(functions ...string) (probe.Samples, map[string]float64, error) {
	var subjects []string
	for _, f := range functions {
		subjects = append(subjects, "vdso:"+f)
	}
	out, err := m.output(nil, append([]string{"entries"}, subjects...)...)
	if err != nil {
		return nil, nil, err
	}
	t, err := m.times(nil, append(subjects, "syscall:monotonic")...)
	return t, probe.Entered(out), err
}

func checkVDSO(m *machine, c *Check, _ *Report) error {
	t, entered, err := m.clocks(functions...)
	if err != nil {
		return err
	}
	var slow, missing []string
	for _, f := range functions {
		share, exists := entered["vdso:"+f]
		ns := t.Quiet("vdso:" + f)
		c.figure("vdso_"+f, ns, "ns")
		switch {
		case !exists:
			missing = append(missing, f)
		case share > 0:
			slow = append(slow, f)
			c.detail("%-17s %9s  %.0f %% of the calls enter the kernel", f, nanoseconds(ns), 100*share)
		default:
			c.detail("%-17s %9s", f, nanoseconds(ns))
		}
	}
	plain := t.Quiet("syscall:monotonic")
	c.figure("syscall_monotonic", plain, "ns")
	switch {
	case len(missing) == len(functions):
		c.found(Fail, "there is no vDSO: every clock read is a system call")
		c.Do = "use a kernel that provides a vDSO, and boot it without vdso=0"
	case len(slow) > 0:
		c.found(Fail, "%d of %d functions enter the kernel: %s", len(slow), len(functions), strings.Join(slow, ", "))
		c.Do = "the check clock names the cause"
	case len(missing) > 0:
		c.found(Warn, "it has no %s: these are system calls", strings.Join(missing, ", "))
		c.Do = "use a newer kernel"
	default:
		c.found(OK, "clock_gettime(): %s, as a system call: %s", nanoseconds(t.Quiet("vdso:monotonic")), nanoseconds(plain))
	}
	return nil
}

const clockDir = "/sys/devices/system/clocksource/clocksource0/"

func checkClock(m *machine, c *Check, _ *Report) error {
	t, entered, err := m.clocks("monotonic")
	if err != nil {
		return err
	}
	source := cmp.Or(m.line(clockDir+"current_clocksource"), "clock source unknown")
	available := strings.Fields(m.line(clockDir + "available_clocksource"))
	vdso, plain := t.Quiet("vdso:monotonic"), t.Quiet("syscall:monotonic")
	c.figure("vdso_monotonic", vdso, "ns")
	c.figure("syscall_monotonic", plain, "ns")
	if len(available) > 0 {
		c.detail("available: %s", strings.Join(available, ", "))
	}
	switch share, exists := entered["vdso:monotonic"]; {
	case !exists:
		c.found(Warn, "%s: without a vDSO a read is a system call, %s", source, nanoseconds(plain))
		c.Do = "the check vdso names the cause"
	case share > 0:
		c.found(Fail, "%s: the vDSO cannot read it; a read is a system call, %s", source, nanoseconds(vdso))
		c.Do = "'dmesg | grep -i -e clocksource -e tsc' shows why the kernel did not choose a faster one, which the boot option " +
			"clocksource=tsc forces if it is available; on a virtual machine, choose another type"
	default:
		c.found(OK, "%s: a read takes %s", source, nanoseconds(vdso))
	}
	return nil
}
