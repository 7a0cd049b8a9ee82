// Lines of tracers that report calls of the page:
//
//	strace      [pid 7] --- SIGSEGV {si_signo=SIGSEGV, si_code=SEGV_MAPERR, si_addr=0xffffffffff600400} ---
//	strace      --- SIGSEGV (Segmentation fault) @ ffffffffff600400 (0) ---            (before 4.6)
//	sysdig      81 12:03:04.5 0 bash (7) > page_fault addr=FFFFFFFFFF600400 ip=FFFFFFFFFF600400 error=…
//	perf script bash 7 [000] 12.3: exceptions:page_fault_user: address=0xffffffffff600400 ip=0x… error_code=0x14
//	ftrace      bash-7 [000] d..1. 12.3: page_fault_user: address=0xffffffffff600400 ip=0x… error_code=0x14
//
// A page fault in the page is not necessarily a crash: a kernel with vsyscall=xonly or emulate also faults, and
// then serves the call. A SIGSEGV that strace reports is one.

package diagnose

import (
	"regexp"
	"strconv"
	"strings"
	"syscall"

	"vfix.dev/vfix/internal/kernellog"
	"vfix.dev/vfix/internal/lazy"
	"vfix.dev/vfix/rewriter/find"
)

// pageFault matches a page fault with its process, from sysdig, or from perf script and ftrace. libtraceevent
// leaves the f of "%pf" after an address.
var pageFault = lazy.Regexp(`(?i)^\s*(?:(?:\d+\s+)?(?P<when>\S*[:.]\S*)\s+(?:\d+\s+)?(?P<program>\S.{0,14}?)\s+\((?P<pid>\d+)(?:[.:]\d+)?\)\s*[<>]\s*|` +
	`(?P<program2>\S.{0,15}?)[-\s]\s*(?P<pid2>\d+)(?:/\d+)?\s+(?:\([\s\d-]+\)\s+)?(?:\[\d+\]\s+)?(?:\S{4,6}\s+)?(?P<when2>\d+\.\d+):\s+(?:\d+\s+)?(?:exceptions:)?|.*?)` +
	`page_fault\S* (?:.*? )?addr(?:ess)?=(?:0x)?(?P<fault>[0-9a-f]{1,16})f?(?: (?:.*? )?ip=(?:0x)?(?P<ip>[0-9a-f]{1,16})f?\b)?`)

// parseTrace parses a line of a tracer. It ignores page faults elsewhere, which every process has.
func parseTrace(line string) (l logLine, ok bool) {
	if strings.Contains(line, "--- SIG") {
		return parseStrace(line)
	}
	if !strings.Contains(line, "page_fault") {
		return l, false
	}
	m := matched(pageFault(), line)
	l.fromTrace = true
	l.Program, l.When = m["program"]+m["program2"], m["when"]+m["when2"]
	l.PID, _ = strconv.Atoi(m["pid"] + m["pid2"])
	l.Fault, l.KnownFault = hexNumber(m["fault"])
	l.IP, l.KnownIP = hexNumber(m["ip"])
	if !l.KnownFault || !inPage(l.Fault) {
		return l, false
	}
	if !l.KnownIP {
		l.IP = l.Fault
	}
	_, entry := find.FunctionAt(l.IP)
	switch {
	case l.IP == l.Fault && entry:
		l.kind = Trap
	case l.IP == l.Fault:
		l.kind = Misaligned
	default:
		l.kind = Read
	}
	return l, true
}

// matched returns the named groups of a match, an empty map if text does not match.
func matched(re *regexp.Regexp, text string) map[string]string {
	all := map[string]string{}
	if m := re.FindStringSubmatch(text); m != nil {
		for i, name := range re.SubexpNames() {
			all[name] = m[i]
		}
	}
	return all
}

func hexNumber(text string) (uint64, bool) {
	v, err := strconv.ParseUint(text, 16, 64)
	return v, err == nil
}

// straceHead matches the process at the start of a line of strace, "[pid 7] " (-f) or "7 " (-f -o), and
// straceSignal a signal. With -i, the address of the instruction is in brackets before it; before strace 4.6, the
// fault's is after @.
const straceHead = `^(?:.*?\[pid\s+(?P<pid>\d+)\]|\s*(?P<pid2>\d+)\s)?`

var straceSignal = lazy.Regexp(straceHead + `(?:.*?\[(?P<ip>[0-9a-f]{16})\])?.*?--- (?P<signal>SIGSEGV|SIGSYS) ` +
	`(?:.*?si_code=(?P<code>\w+))?(?:.*?(?:si_(?:call_)?addr=(?:0x(?P<addr>[0-9a-f]+)|(?P<null>NULL))|@ (?P<old>[0-9a-f]+)))?`)

func parseStrace(line string) (l logLine, ok bool) {
	m := matched(straceSignal(), line)
	l.Signal = syscall.Signal(signalWords[strings.ToLower(strings.TrimPrefix(m["signal"], "SIG"))])
	if l.Signal == 0 {
		return l, false
	}
	l.fromTrace = true
	l.PID, _ = strconv.Atoi(m["pid"] + m["pid2"])
	address, known := hexNumber(m["addr"] + m["old"])
	switch m["code"] {
	case "SI_USER", "SI_TKILL", "SI_QUEUE":
		l.kind, l.sent = Other, true
		return l, true
	}
	if l.Signal == sigsys {
		l.IP, l.KnownIP = address, known
		return l, known
	}
	l.Fault, l.KnownFault = address, known || m["null"] != "" && m["code"] != "SI_KERNEL"
	l.IP, l.KnownIP = hexNumber(m["ip"])
	if !l.KnownIP {
		// A call faults at its own address. A read of exactly these three addresses is not known.
		l.IP = l.Fault
		l.noIP = true
	}
	return l, l.KnownFault || l.KnownIP
}

// straceExit matches a process that exited by itself, with a status that is not a signal, and straceExec an execve
// that worked, or has not ended yet.
var (
	straceExit = lazy.Regexp(straceHead + `.*\+\+\+ exited with (?P<status>\d\d?|1[01]\d|12[0-7]) \+\+\+$`)
	straceExec = lazy.Regexp(straceHead + `.*?execve\("(?P<file>[^"]*)"`)
)

// straced reads such a line; m is nil for other lines.
func straced(re *regexp.Regexp, line string) (pid int, m map[string]string) {
	if m = matched(re, line); len(m) == 0 || strings.Contains(line, ") = -1") {
		return 0, nil
	}
	pid, _ = strconv.Atoi(m["pid"] + m["pid2"])
	return pid, m
}

// logLine is the content of one line; for a tracer's, Message is not set.
type logLine struct {
	kernellog.Event
	kind Kind
	// fromTrace reports that a tracer wrote the line, noIP that IP is copied from Fault, sent that a process sent
	// the signal.
	fromTrace, noIP, sent bool
}

// vague reports whether the line shows a crash but not its cause, which another line may have.
func (l *logLine) vague() bool { return l.Message == kernellog.Abend }

// meant maps the kernel's messages to kinds; for others only the address counts.
var meant = map[kernellog.Message]Kind{
	kernellog.Attempted: Call, kernellog.Misaligned: Misaligned, kernellog.ReadDenied: Read,
	kernellog.BadStack: BadStack, kernellog.BadPointer: BadPointer, kernellog.Filtered: Filtered,
	kernellog.Protection: Other, kernellog.Seccomp: Other, kernellog.Abend: Other,
}

// parseLine parses a line of a log; ok is false for lines about something else.
func parseLine(line string) (l logLine, ok bool) {
	if e, ok := kernellog.Parse(line); ok {
		return fromKernel(e), true
	}
	return parseTrace(line)
}

func fromKernel(e kernellog.Event) logLine {
	l := logLine{Event: e, kind: meant[e.Message]}
	// On a processor with LASS, a call of the page is a general protection fault.
	if _, ok := find.FunctionAt(l.IP); ok && e.Message == kernellog.Protection {
		l.kind = Call
	}
	return l
}
