// The kernel's clock source, and whether the vDSO can read it.

package doctor

import (
	"fmt"
	"slices"
	"strings"

	"vfix.dev/vfix/host/probe"
)

const clockDir = "/sys/devices/system/clocksource/clocksource0/"

// slowSources are the clock sources that the vDSO cannot read (they have VDSO_CLOCKMODE_NONE:
// arch/x86/kernel/hpet.c, drivers/clocksource/acpi_pm.c, kernel/time/jiffies.c,
// arch/x86/xen/time.c where the hypervisor's TSC is not stable), and why.
var slowSources = map[string]string{
	"xen":             "a page shared by the hypervisor, which the vDSO reads only if the hypervisor marks its TSC as stable",
	"hpet":            "a timer on the chipset, outside the processor",
	"acpi_pm":         "a power management timer, read through an I/O port",
	"jiffies":         "the timer interrupt's count",
	"refined-jiffies": "the timer interrupt's count",
}

func checkClock(x *examination, c *Check) {
	source := x.line(clockDir + "current_clocksource")
	available := x.line(clockDir + "available_clocksource")
	c.fact("current", source)
	c.fact("available", available)
	if available != "" {
		c.line("available: %s", strings.Join(strings.Fields(available), ", "))
	}
	entries := x.run(nil, "entries", "vdso:monotonic", "vdso:realtime")
	t, _ := x.times(nil, "vdso:monotonic", "syscall:monotonic", "vdso:monotonic_coarse")
	ns, timed := c.quiet(t, "vdso:monotonic", "vdso_monotonic")
	plain, ok1 := c.quiet(t, "syscall:monotonic", "syscall_monotonic")
	if coarse, ok2 := c.quiet(t, "vdso:monotonic_coarse", "vdso_monotonic_coarse"); timed && ok1 && ok2 {
		c.line("clock_gettime: %s, %s coarse, %s as a system call", nanoseconds(ns), nanoseconds(coarse), nanoseconds(plain))
	}
	if source == "" {
		c.note("%scurrent_clocksource is not readable: /sys is not mounted here", clockDir)
		source = "unknown clock source"
	}
	e, counted := probe.Entries(entries.Stdout)["vdso:monotonic"]
	judgeClock(c, source, available, e, counted, ns, timed)
}

func judgeClock(c *Check, source, available string, e probe.Entry, counted bool, ns float64, timed bool) {
	why, slow := slowSources[source]
	inVDSO := timed
	if plain, ok := c.value("syscall_monotonic"); ok && !timed {
		ns, timed = plain, true // without a vDSO
	}
	price := "cannot be timed"
	if timed {
		price = "costs " + nanoseconds(ns)
	}
	switch {
	case e.Entered > 0 || !counted && slow:
		c.found(Fail, "%s: every read is a system call, which %s", source, price)
		c.Means = "This slows every clock read in every container: databases, tracing and logging read clocks all the time"
		if why != "" {
			c.Means = fmt.Sprintf("%s is %s. %s", source, why, c.Means)
		}
		c.Do = "find out why the kernel rejected a faster one ('dmesg | grep -i -e clocksource -e tsc'); on a virtual machine, choose another instance type"
		if better := fasterSource(available); better != "" {
			c.Do = fmt.Sprintf("echo %s > %scurrent_clocksource, and clocksource=%s on the kernel's command line; first find out why the kernel did not choose it ('dmesg | grep -i -e clocksource -e tsc')", better, clockDir, better)
		}
	case !counted && !inVDSO:
		c.found(Warn, "%s: there is no vDSO, a read is a system call and %s", source, price)
		c.Means = "without a vDSO the clock source makes little difference"
		c.Do = "see the check vdso"
	default:
		c.found(OK, "%s: a read %s", source, price)
		c.Means = "programs read it without entering the kernel"
	}
}

// fasterSource returns the first of the available clock sources that the vDSO reads.
func fasterSource(available string) string {
	for _, s := range []string{"tsc", "kvm-clock", "hyperv_clocksource_tsc_page"} {
		if slices.Contains(strings.Fields(available), s) {
			return s
		}
	}
	return ""
}
