package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
)

// What the kernel's log tells of programs that died of the vsyscall page.

// logLine is a message of the kernel.
type logLine struct {
	text string // without level, time and host
	when string // as the log has it; "" where it has none
}

// The kernel's words, and the page (arch/x86/entry/vsyscall/vsyscall_64.c, arch/x86/mm/fault.c,
// arch/x86/kernel/traps.c).
const (
	attempted  = " vsyscall attempted with vsyscall=none "
	segfault   = " segfault at "
	protection = " general protection "
	pageStart  = 0xffffffffff600000
	pageEnd    = 0xffffffffff601000
	maxEvents  = 1000
)

// ours are programs of vfix that try the page out.
var ours = []string{"vfix-measure", "vfix-trace"}

// event is a call of the page that ended a program.
type event struct {
	program string
	pid     int
	ip      uint64
	when    string
}

// parseEvent reads a line of the kernel's log; ok is whether it tells of such a call.
func parseEvent(l logLine) (e event, ok bool) {
	var head, ip string
	switch {
	case strings.Contains(l.text, attempted):
		var rest string
		head, rest, _ = cutLast(l.text, attempted)
		ip, ok = strings.CutPrefix(rest, "ip:")
	case strings.Contains(l.text, segfault):
		var rest string
		head, rest, _ = cutLast(l.text, segfault)
		_, ip, ok = strings.Cut(rest, " ip ")
	case strings.Contains(l.text, protection):
		var rest string
		head, rest, _ = strings.Cut(strings.TrimPrefix(l.text, "traps: "), protection)
		_, ip, ok = strings.Cut(rest, "ip:")
	}
	if !ok {
		return e, false
	}
	ip, _, _ = strings.Cut(ip, " ")
	addr, err := strconv.ParseUint(ip, 16, 64)
	if err != nil || addr < pageStart || addr >= pageEnd {
		return e, false
	}
	head = strings.TrimSuffix(head, ":")
	open := strings.LastIndexByte(head, '[')
	if open < 0 || !strings.HasSuffix(head, "]") {
		return e, false
	}
	pid, err := strconv.Atoi(head[open+1 : len(head)-1])
	if err != nil || pid <= 0 {
		return e, false
	}
	return event{program: head[:open], pid: pid, ip: addr, when: l.when}, true
}

// cutLast is strings.Cut at the last place of sep: a program's name comes first, and may hold
// anything.
func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}

// parseLog takes syslog's or dmesg's line apart: "Nov 21 21:14:17 host kernel: [  12.34] text",
// "[  12.34] text" or text. journalctl's ISO times are one word.
func parseLog(line string) logLine {
	line = strings.TrimRight(line, "\n")
	var l logLine
	if before, after, ok := strings.Cut(line, " kernel: "); ok {
		l.when, line = before, after
		if i := strings.LastIndexByte(before, ' '); i > 0 {
			l.when = before[:i] // without the host
		}
	}
	if strings.HasPrefix(line, "[") {
		if stamp, text, ok := strings.Cut(line[1:], "] "); ok {
			if l.when == "" {
				l.when = strings.TrimSpace(stamp)
			}
			line = text
		}
	}
	l.text = line
	return l
}

// parseKmsg reads a record of /dev/kmsg (Documentation/ABI/testing/dev-kmsg):
// "level,sequence,microseconds,flags;text\n" and further lines. Only the kernel's own records
// count, not what programs wrote there: facility 0.
func parseKmsg(record string) (l logLine, ok bool) {
	const levels, micro = 8, 1e6
	head, text, ok := strings.Cut(record, ";")
	f := strings.Split(head, ",")
	if !ok || len(f) < 3 {
		return l, false
	}
	priority, err1 := strconv.Atoi(f[0])
	us, err2 := strconv.ParseUint(f[2], 10, 63)
	if err1 != nil || err2 != nil || priority < 0 || priority >= levels {
		return l, false
	}
	text, _, _ = strings.Cut(text, "\n")
	return logLine{unescape(text), fmt.Sprintf("%.3f s after boot", float64(us)/micro)}, true
}

// unescape undoes /dev/kmsg's \xHH.
func unescape(s string) string {
	if !strings.Contains(s, `\x`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if strings.HasPrefix(s[i:], `\x`) && len(s)-i >= 4 {
			if n, err := strconv.ParseUint(s[i+2:i+4], 16, 8); err == nil {
				b.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
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
	var all []event
	probes := 0
	for _, l := range lines {
		e, ok := parseEvent(l)
		switch {
		case !ok:
		case slices.Contains(ours, e.program):
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
func judgeLog(x *examination, c *Check, all []event) {
	type process struct {
		program string
		pid     int
	}
	var order []process
	first := map[process]event{}
	for _, e := range all {
		p := process{e.program, e.pid}
		if _, ok := first[p]; !ok {
			first[p] = e
			order = append(order, p)
		}
	}
	c.figure("crashes", float64(len(order)), "processes")
	for _, p := range order {
		e := first[p]
		line := fmt.Sprintf("%s[%d]  %s at %#x", p.program, p.pid, pageFunction(e.ip), e.ip)
		if e.when != "" {
			line += ", " + e.when
		}
		c.Lines = append(c.Lines, line+x.whereabouts(p.program, p.pid))
	}
	if len(order) == 0 {
		c.found(OK, "no program died of the vsyscall page, as far as the log goes back")
		return
	}
	c.found(Fail, "calls of a vsyscall page that was not there, by so many processes: %d", len(order))
	c.Means = "each ended with SIGSEGV, status 139"
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
		return "; it lives"
	}
	if id := containerOf(string(cgroup)); id != "" {
		const head = 12
		return "; it lives in container " + id[:head]
	}
	return "; it lives, in no container"
}

// pageFunction names the function of an address in the page (uapi/asm/vsyscall.h).
func pageFunction(ip uint64) string {
	switch ip - pageStart {
	case 0:
		return "gettimeofday()"
	case 0x400:
		return "time()"
	case 0x800:
		return "getcpu()"
	}
	return "no function"
}
