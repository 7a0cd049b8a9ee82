// Lines of tracers that saw the page being called:
//
//	strace      [pid 7] --- SIGSEGV {si_signo=SIGSEGV, si_code=SEGV_MAPERR, si_addr=0xffffffffff600400} ---
//	strace      --- SIGSEGV (Segmentation fault) @ ffffffffff600400 (0) ---            (before 4.6)
//	sysdig      81 12:03:04.5 0 bash (7) > page_fault addr=FFFFFFFFFF600400 ip=FFFFFFFFFF600400 error=…
//	perf script bash 7 [000] 12.3: exceptions:page_fault_user: address=0xffffffffff600400 ip=0x… error_code=0x14
//	ftrace      bash-7 [000] d..1. 12.3: page_fault_user: address=0xffffffffff600400 ip=0x… error_code=0x14
//
// A page fault in the page is not a crash by itself: a kernel with vsyscall=xonly or emulate
// also faults, and then serves the call. strace's SIGSEGV is one.

package diagnose

import (
	"regexp"
	"strconv"
	"strings"
	"sync"

	"vfix.dev/vfix/internal/lazy"
	"vfix.dev/vfix/rewriter/find"
)

// parseTrace takes a line of a tracer apart. Page faults elsewhere are every process's daily
// bread: they are about something else.
func parseTrace(line string) (l logLine, ok bool) {
	if i := strings.Index(line, "--- SIG"); i >= 0 {
		return parseStrace(line, i)
	}
	i := strings.Index(line, "page_fault")
	if i < 0 {
		return l, false
	}
	l.fromTrace = true
	for _, key := range []string{" addr=", " address="} {
		if v, is := traceNumber(line[i:], key); is {
			l.fault, l.known.Fault = v, true
		}
	}
	l.ip, l.known.IP = traceNumber(line[i:], " ip=")
	if !l.known.Fault || !inPage(l.fault) {
		return l, false
	}
	if !l.known.IP {
		l.ip = l.fault
	}
	_, entry := find.FunctionAt(l.ip)
	switch {
	case l.ip == l.fault && entry:
		l.kind = Trap
	case l.ip == l.fault:
		l.kind = Misaligned
	default:
		l.kind = Read
	}
	l.tracedBy(line[:i])
	return l, true
}

// traceNumber is number for libtraceevent's output, which leaves an f of "%pf" behind.
func traceNumber(s, key string) (uint64, bool) {
	i := strings.Index(s, key)
	if i < 0 {
		return 0, false
	}
	const digits = 16
	word, _, _ := strings.Cut(s[i+len(key):]+" ", " ")
	word = strings.TrimRight(strings.TrimPrefix(word, "0x"), ",}")
	if len(word) == digits+1 {
		word = strings.TrimSuffix(word, "f")
	}
	v, err := strconv.ParseUint(word, 16, 64)
	return v, err == nil
}

// traced matches the text before an event, of sysdig, and of perf script and ftrace.
var traced = sync.OnceValue(func() [2]*regexp.Regexp {
	return [2]*regexp.Regexp{
		regexp.MustCompile(`^\s*(?:\d+\s+)?(\S*[:.]\S*)\s+(?:\d+\s+)?(\S.{0,14}?)\s+\((\d+)(?:[.:]\d+)?\)\s*[<>]\s*$`),
		regexp.MustCompile(`^\s*(\S.{0,15}?)[-\s]\s*(\d+)(?:/\d+)?\s+(?:\([\s\d-]+\)\s+)?(?:\[\d+\]\s+)?(?:\S{4,6}\s+)?(\d+\.\d+):\s+(?:\d+\s+)?(?:exceptions:)?$`),
	}
})

// tracedBy finds the process and the time in the text before an event; without them the
// event still counts.
func (l *logLine) tracedBy(head string) {
	if m := traced()[0].FindStringSubmatch(head); m != nil {
		l.when, l.program = m[1], m[2]
		l.pid, _ = strconv.Atoi(m[3])
	} else if m := traced()[1].FindStringSubmatch(head); m != nil {
		l.program, l.when = m[1], m[3]
		l.pid, _ = strconv.Atoi(m[2])
	}
}

// parseStrace reads the line of a signal, whose "--- SIG" is at i. The instruction's address
// is there with -i only, in brackets at the front.
func parseStrace(line string, i int) (l logLine, ok bool) {
	rest := line[i+len("--- "):]
	name, rest, _ := strings.Cut(rest, " ")
	switch name {
	case "SIGSEGV":
		l.signal = sigsegv
	case "SIGSYS":
		l.signal = sigsys
	default:
		return l, false
	}
	l.fromTrace = true
	l.pid = stracePID(line[:i])
	if strings.Contains(rest, "si_code=SI_USER") || strings.Contains(rest, "si_code=SI_TKILL") || strings.Contains(rest, "si_code=SI_QUEUE") {
		l.kind, l.sent = Other, true
		return l, true
	}
	if l.signal == sigsys {
		l.ip, l.known.IP = traceNumber(rest, " si_call_addr=")
		return l, l.known.IP
	}
	l.fault, l.known.Fault = traceNumber(rest, " si_addr=")
	if !l.known.Fault {
		l.fault, l.known.Fault = traceNumber(rest, "@ ")
	}
	if strings.Contains(rest, "si_addr=NULL") && !strings.Contains(rest, "SI_KERNEL") {
		l.fault, l.known.Fault = 0, true
	}
	l.ip, l.known.IP = straceIP(line[:i])
	if !l.known.IP {
		// A call faults at its own address; reads of just these three are not known.
		l.ip = l.fault
		l.noIP = true
	}
	return l, l.known.Fault || l.known.IP
}

// stracePID reads "[pid 7] " (-f) or "7 " (-f -o).
func stracePID(head string) int {
	if i := strings.Index(head, "[pid"); i >= 0 {
		head, _, _ = strings.Cut(head[i+len("[pid"):], "]")
	}
	if words := strings.Fields(head); len(words) > 0 {
		n, _ := strconv.Atoi(words[0])
		return max(n, 0)
	}
	return 0
}

// straceIP reads the "[00007f…] " of -i.
func straceIP(head string) (uint64, bool) {
	const digits = 16
	for {
		open := strings.IndexByte(head, '[')
		end := strings.IndexByte(head, ']')
		if open < 0 || end < open {
			return 0, false
		}
		if word := strings.TrimSpace(head[open+1 : end]); len(word) == digits {
			v, err := strconv.ParseUint(word, 16, 64)
			return v, err == nil
		}
		head = head[end+1:]
	}
}

// straceExit is the line of a process that exited by itself, with a status that does not stand for a signal.
var straceExit = lazy.Regexp(`^(.*)\+\+\+ exited with (?:\d\d?|1[01]\d|12[0-7]) \+\+\+$`)

// straceExec reads the line of an execve that worked, or has not ended yet: 'execve("FILE", …'.
func straceExec(line string) (pid int, file string) {
	head, rest, ok := strings.Cut(line, `execve("`)
	if !ok || strings.Contains(rest, ") = -1") {
		return 0, ""
	}
	file, _, ok = strings.Cut(rest, `"`)
	if !ok {
		return 0, ""
	}
	return stracePID(head), file
}
