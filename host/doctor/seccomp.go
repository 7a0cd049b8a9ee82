// The cost of a seccomp filter like docker's for a clock read that enters the kernel.

package doctor

import (
	"fmt"
	"strings"

	"vfix.dev/vfix/host/probe"
)

// The tax in parts of the bare system call from which the check warns and fails. A kernel from
// 5.11 on remembers which system calls a filter always allows (kernel/seccomp.c,
// SECCOMP_ARCH_NATIVE bitmap) and makes it a few ns.
const (
	taxWarn = 0.5
	taxFail = 1.0
)

func checkSeccomp(x *examination, c *Check) {
	filter, forbidden, err := probe.Filter(x.Profile)
	must(err)
	c.figure("filter_length", float64(len(filter)/probe.InstructionSize), "instructions")
	inherited := x.field("/proc/self/status", "Seccomp_filters")
	c.fact("inherited_filters", inherited)
	subjects := []string{"syscall:monotonic", "syscall:time", "syscall:gettimeofday", "vdso:monotonic"}
	profile := "docker's default profile"
	if x.Profile != nil {
		profile = "the given profile"
	}
	c.fact("profile", profile)
	c.line("%s, %d instructions", profile, len(filter)/probe.InstructionSize)
	// In turn, so that other load on the machine affects both alike.
	bare, taxed := probe.Samples{}, probe.Samples{}
	const turns = 4
	for range turns {
		b, _ := x.times(nil, subjects...)
		f, o := x.times(filter, subjects...)
		if !o.OK() {
			c.found(Skipped, "no seccomp filter could be set here (%s)", o)
			c.Do = "run vfix doctor outside of the sandbox"
			return
		}
		for _, s := range subjects {
			bare[s], taxed[s] = append(bare[s], b[s]...), append(taxed[s], f[s]...)
		}
	}
	worst := 0.0
	for _, s := range subjects[:3] {
		b, ok1 := bare.Quiet(s)
		f, ok2 := taxed.Quiet(s)
		if !ok1 || !ok2 {
			continue
		}
		name := strings.TrimPrefix(s, "syscall:")
		c.figure("syscall_"+name, b, "ns")
		c.figure("filtered_"+name, f, "ns")
		worst = max(worst, f/b-1)
		c.line("%-13s %9s bare, %9s filtered", name, nanoseconds(b), nanoseconds(f))
	}
	judgeSeccomp(c, worst, inherited, forbidden)
}

func judgeSeccomp(c *Check, tax float64, inherited string, forbidden []string) {
	b, _ := c.value("syscall_monotonic")
	f, _ := c.value("filtered_monotonic")
	c.figure("tax", tax, "ratio")
	found := fmt.Sprintf("clock_gettime as a system call: %s without a filter, %s under one", nanoseconds(b), nanoseconds(f))
	c.Means = "only clock reads that enter the kernel are slower: those of the vsyscall page, and all if the vDSO cannot read the clock"
	switch {
	case len(forbidden) > 0:
		c.found(Fail, "the profile forbids %s", strings.Join(forbidden, ", "))
		c.Means = "programs without a vDSO, those that call the vsyscall page, and all if the clock source is slow, cannot read the clock"
		c.Do = "allow them in the profile, whatever their arguments, which also costs the least"
	case tax >= taxFail:
		c.found(Fail, "%s: %.0f%% more at most", found, 100*tax)
		c.Do = "vfix rebuild IMAGE avoids the system call; a kernel from 5.11 on, or a profile that allows clock reads whatever their arguments, makes the filter cheap" + findImages
	case tax >= taxWarn:
		c.found(Warn, "%s: %.0f%% more at most", found, 100*tax)
		c.Do = "vfix rebuild IMAGE avoids the system call; a kernel from 5.11 on makes the filter cheap" + findImages
	default:
		c.found(OK, "%s", found)
	}
	if inherited != "" && inherited != "0" {
		c.note("vfix itself runs under %s seccomp filter(s) here, so the figure without a filter includes them: run vfix doctor on the host for the bare figure", inherited)
	}
}
