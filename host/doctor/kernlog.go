// Vsyscall crashes in the kernel's log.

package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"vfix.dev/vfix/host/diagnose"
	"vfix.dev/vfix/internal/kernellog"
	"vfix.dev/vfix/rewriter/find"
)

// maxEvents bounds the crashes that are kept of a log.
const maxEvents = 1000

// ours are programs of vfix that test the page.
var ours = []string{"vfix-measure", "vfix-trace"}

// maxLines bounds what is kept of a log.
const maxLines = 1 << 20

// stripLines parses the lines of a log; those that programs wrote are left out.
func stripLines(text string) (lines []kernellog.Line) {
	for line := range strings.Lines(text) {
		if l, ok := kernellog.Strip(line); ok && len(lines) < maxLines {
			lines = append(lines, l)
		}
	}
	return lines
}

// containerOf is the container that a process of /proc/PID/cgroup is in: the 64 digits that
// docker, containerd, CRI-O and podman name its cgroup after; "" for none.
func containerOf(cgroup string) string {
	const digits = 64
	for line := range strings.Lines(cgroup) {
		for _, part := range strings.FieldsFunc(strings.TrimSpace(line), func(r rune) bool { return strings.ContainsRune("/:-.", r) }) {
			if len(part) == digits && strings.Trim(part, "0123456789abcdef") == "" {
				return part
			}
		}
	}
	return ""
}

func checkKernelLog(x *examination, c *Check) {
	lines, source, err := x.kernelLog(x.ctx)
	if err != nil {
		must(context.Cause(x.ctx))
		c.found(Skipped, "the kernel's log is not readable: %v", err)
		if errors.Is(err, fs.ErrPermission) {
			c.Do = "run 'vfix doctor --check kernel-log' as root: this user may not read it (kernel.dmesg_restrict)"
		}
		return
	}
	c.fact("source", source)
	c.figure("lines", float64(len(lines)), "lines")
	var all []*diagnose.Crash
	probes := 0
	diagnose.OfKernel(lines, func(d *diagnose.Crash) {
		switch {
		case !d.Kind.Vsyscall() || len(d.PIDs) == 0:
		case slices.Contains(ours, d.Program):
			probes++
		case len(all) < maxEvents:
			all = append(all, d)
		}
	})
	since := ""
	if len(lines) > 0 && lines[0].When != "" {
		since = " (since " + lines[0].When + ")"
	}
	judgeLog(x, c, all, since)
	if probes > 0 {
		c.note("%d lines are of vfix's own probes", probes)
	}
}

// judgeLog prints each process once.
func judgeLog(x *examination, c *Check, all []*diagnose.Crash, since string) {
	c.figure("crashes", float64(len(all)), "processes")
	for _, d := range all {
		at, what := d.IP, pageFunction(d.IP)
		if d.Kind == diagnose.Read {
			what = "read of the page"
		}
		line := fmt.Sprintf("%s[%d]  %s at %#x", d.Program, d.PIDs[0], what, at)
		if d.When != "" {
			line += ", " + d.When
		}
		if d.Kind == diagnose.Filtered {
			line += ", refused by a seccomp filter"
		}
		c.line("%s", line+x.whereabouts(d.Program, d.PIDs[0]))
	}
	if len(all) == 0 {
		c.found(OK, "the kernel log%s shows no vsyscall crash", since)
		return
	}
	noun := "process"
	if len(all) > 1 {
		noun = "processes"
	}
	c.found(Fail, "%d %s crashed calling the vsyscall page", len(all), noun)
	c.Means = "each ended with SIGSEGV (status 139), or with SIGSYS (status 159) if a seccomp filter refused the call"
	c.Do = "vfix diagnose for one of these lines, vfix scan for its image"
}

// whereabouts says in which container a process is, if it is still running.
func (x *examination) whereabouts(program string, pid int) string {
	proc := fmt.Sprintf("/proc/%d/", pid)
	if x.line(proc+"comm") != strings.TrimSpace(program) {
		return "" // ended, or another process has its number by now
	}
	cgroup, err := x.read(proc + "cgroup")
	if err != nil {
		return "; still running"
	}
	if id := containerOf(string(cgroup)); id != "" {
		const head = 12
		return "; still running in container " + id[:head]
	}
	return "; still running, in no container"
}

// pageFunction names the function of an address in the page.
func pageFunction(ip uint64) string {
	if f, ok := find.FunctionAt(ip); ok {
		return f.String() + "()"
	}
	return "no function"
}
