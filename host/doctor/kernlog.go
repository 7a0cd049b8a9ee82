// What the kernel's log tells of programs that died of the vsyscall page.

package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"vfix.dev/vfix/internal/kernellog"
	"vfix.dev/vfix/rewriter"
)

// maxEvents bounds the crashes that are kept of a log.
const maxEvents = 1000

// ours are programs of vfix that try the page out.
var ours = []string{"vfix-measure", "vfix-trace"}

// maxLines bounds what is kept of a log.
const maxLines = 1 << 20

// stripLines takes the lines of a log apart; those that programs wrote are left out.
func stripLines(text string) (lines []kernellog.Line) {
	for line := range strings.Lines(text) {
		if l, ok := kernellog.Strip(line); ok && len(lines) < maxLines {
			lines = append(lines, l)
		}
	}
	return lines
}

// died reports whether a message tells of a program that died of the page: of a call at an
// address in it. That of a bad pointer or stack is the program's own fault.
func died(e kernellog.Event) bool {
	if e.IP < rewriter.PageVaddr || e.IP-rewriter.PageVaddr >= rewriter.PageSize || !e.KnownIP {
		return false
	}
	return e.Message != kernellog.BadPointer && e.Message != kernellog.BadStack
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

func checkKernelLog(ctx context.Context, x *examination, c *Check) error {
	lines, source, err := x.kernelLog(ctx)
	if err != nil {
		if ctx.Err() != nil {
			return err
		}
		c.found(Skipped, "the kernel's log is not readable: %v", err)
		if errors.Is(err, fs.ErrPermission) {
			c.Do = "run 'vfix doctor --check kernel-log' as root: this user may not read it (kernel.dmesg_restrict)"
		}
		return nil
	}
	c.fact("source", source)
	c.figure("lines", float64(len(lines)), "lines")
	var all []kernellog.Event
	probes := 0
	for _, l := range lines {
		e, ok := l.Event()
		switch {
		case !ok || !died(e):
		case slices.Contains(ours, e.Program):
			probes++
		case len(all) < maxEvents:
			all = append(all, e)
		}
	}
	judgeLog(x, c, all)
	if probes > 0 {
		c.note("%d lines are of vfix's own probes", probes)
	}
	return nil
}

// judgeLog prints each process once: the kernel has two lines for one crash.
func judgeLog(x *examination, c *Check, all []kernellog.Event) {
	type process struct {
		program string
		pid     int
	}
	var order []process
	first := map[process]kernellog.Event{}
	for _, e := range all {
		p := process{e.Program, e.PID}
		if _, ok := first[p]; !ok {
			first[p] = e
			order = append(order, p)
		}
	}
	c.figure("crashes", float64(len(order)), "processes")
	for _, p := range order {
		e := first[p]
		line := fmt.Sprintf("%s[%d]  %s at %#x", p.program, p.pid, pageFunction(e.IP), e.IP)
		if e.When != "" {
			line += ", " + e.When
		}
		if e.Message == kernellog.Seccomp {
			line += ", refused by a seccomp filter"
		}
		c.Lines = append(c.Lines, line+x.whereabouts(p.program, p.pid))
	}
	if len(order) == 0 {
		c.found(OK, "no program died of the vsyscall page, as far as the log goes back")
		return
	}
	noun := "process"
	if len(order) > 1 {
		noun = "processes"
	}
	c.found(Fail, "%d %s crashed calling the vsyscall page", len(order), noun)
	c.Means = "each ended with SIGSEGV (status 139), or with SIGSYS (status 159) where a seccomp filter refused the call"
	c.Do = "vfix diagnose for one of these lines, vfix scan for its image"
}

// whereabouts says in which container a process is, where it still lives.
func (x *examination) whereabouts(program string, pid int) string {
	proc := fmt.Sprintf("/proc/%d/", pid)
	if x.line(proc+"comm") != strings.TrimSpace(program) {
		return "" // ended, or the number is another's by now
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
	if f, ok := rewriter.FunctionAt(ip); ok {
		return f.String() + "()"
	}
	return "no function"
}
