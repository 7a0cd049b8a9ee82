package diagnose

import (
	"strconv"
	"strings"

	"vfix.dev/vfix/rewriter"
)

// Lines of the kernel's log that tell of a crash, of Linux 2.6.32 to 6.x. Sources: the
// kernel's arch/x86/entry/vsyscall/vsyscall_64.c (warn_bad_vsyscall), arch/x86/mm/fault.c
// (show_signal_msg), arch/x86/kernel/traps.c (show_signal), kernel/auditsc.c
// (audit_seccomp, audit_core_dumps):
//
//	bash[1] vsyscall attempted with vsyscall=none ip:… cs:33 sp:… ax:… si:… di:…
//	bash[1]: segfault at … ip … sp … error 15 in bash[400000+1000] likely on CPU 0 (…)
//	bash[1]: segfault at … rip … rsp … error 14             (2.6)
//	traps: bash[1] general protection fault ip:… sp:… error:0 in bash[…]
//	audit: type=1326 audit(…): … pid=1 comm="bash" exe="/bin/bash" sig=31 … ip=0x… code=…
//
// In front of that may stand what syslog, journalctl, dmesg or /dev/kmsg adds.

// logLine is what one line says.
type logLine struct {
	program, exe, when string
	pid                int
	signal             int
	kind               Kind
	fault, ip, sp      uint64
	known              Known
	where              string // the file that the kernel names behind "in"
	// fromTrace says that a tracer wrote the line, noIP that ip is taken from fault, sent that
	// a process sent the signal.
	fromTrace, noIP, sent bool
	// vague says that the line tells of a crash and not of its cause: another may.
	vague bool
}

// messages are the kernel's words about the page, and what each means.
var messages = []struct {
	text string
	kind Kind // of a call; "" where the address decides
}{
	{"vsyscall attempted with vsyscall=none", Call},
	{"misaligned vsyscall (exploit attempt or buggy program)", Misaligned},
	{"vsyscall read attempt denied", Read},
	{"vsyscall with bad stack (exploit attempt?)", BadStack},
	{"vsyscall fault (exploit attempt?)", BadPointer},
	{"seccomp tried to change syscall nr or ip", Filtered},
}

// parseLine takes a line of a kernel log apart; ok is false for lines about something else.
func parseLine(line string) (l logLine, ok bool) {
	if l, ok := parseAudit(line); ok {
		return l, ok
	}
	if l, ok := parseTrace(line); ok {
		return l, ok
	}
	for _, m := range messages {
		// Some kernels have a colon behind the pid.
		for _, between := range []string{"] ", "]: "} {
			if i := strings.Index(line, between+m.text); i >= 0 && l.who(line[:i+1]) {
				l.aboutPage(m.kind, line[i+len(between)+len(m.text):])
				return l, l.known.IP
			}
		}
	}
	if i := strings.Index(line, "]: segfault at "); i >= 0 && l.who(line[:i+1]) {
		return l, l.segfault(line[i+len("]: segfault at "):])
	}
	if i := strings.Index(line, "] general protection"); i >= 0 && l.who(line[:i+1]) {
		return l, l.protection(line[i:])
	}
	return logLine{}, false
}

// who takes the process, NAME[PID], and the time from what stands before the message. A
// name may have spaces and brackets in it, and has 15 bytes at most (TASK_COMM_LEN).
func (l *logLine) who(head string) bool {
	open := strings.LastIndexByte(head, '[')
	if open < 0 {
		return false
	}
	pid, err := strconv.Atoi(strings.TrimSuffix(head[open+1:], "]"))
	if err != nil || pid <= 0 {
		return false
	}
	const commLen = 15
	name, when := stripPrefix(head[:open])
	if len(name) > commLen { // a prefix that is not known: the name is the last word
		name = name[strings.LastIndexByte(name, ' ')+1:]
	}
	l.pid, l.program, l.when = pid, name, when
	return true
}

// stripPrefix takes off what loggers put before the kernel's words, and returns the time
// that it says, as it is written.
func stripPrefix(s string) (rest, when string) {
	if i := strings.LastIndex(s, "kernel: "); i >= 0 { // syslog, journalctl
		when = syslogTime(s[:i])
		s = s[i+len("kernel: "):]
	}
	if i := strings.IndexByte(s, ';'); i >= 0 && strings.Count(s[:i], ",") >= 2 && s[0] >= '0' && s[0] <= '9' { // /dev/kmsg
		s = s[i+1:]
	}
	if i := strings.IndexByte(s, '>'); strings.HasPrefix(s, "<") && i > 0 && i < 5 { // the level
		s = s[i+1:]
	}
	if facility, after, ok := strings.Cut(s, ": "); ok && (strings.HasPrefix(facility, "kern") || strings.HasPrefix(facility, "user")) && !strings.ContainsAny(facility, "[]") {
		s = after // dmesg -x, Talos
		if level, after, ok := strings.Cut(s, ": "); ok && !strings.ContainsAny(level, "[]") {
			s = after
		}
	}
	s = strings.TrimSpace(s)
	for strings.HasPrefix(s, "[") {
		end := strings.IndexByte(s, ']')
		if end < 0 || !isStamp(s[1:end]) {
			break
		}
		if when == "" {
			when = strings.TrimSpace(s[1:end])
		}
		s = strings.TrimLeft(strings.TrimPrefix(s[end+1:], ":"), " ")
	}
	return strings.TrimPrefix(s, "traps: "), when
}

// isStamp says whether a text in brackets is a time (12.3; Sat Nov 21 21:18:04 2026) or the
// caller that CONFIG_PRINTK_CALLER adds (T106, C0). Anything else is part of a name.
func isStamp(s string) bool {
	s = strings.TrimSpace(s)
	if len(s) > 1 && (s[0] == 'T' || s[0] == 'C') {
		_, err := strconv.Atoi(s[1:])
		return err == nil
	}
	return strings.ContainsAny(s, ".:") && strings.ContainsAny(s, "0123456789")
}

// syslogTime is what stands before the host's name: "Nov 21 21:18:04" or one word.
func syslogTime(s string) string {
	words := strings.Fields(s)
	switch {
	case len(words) >= 4 && strings.Contains(words[2], ":"):
		return strings.Join(words[:3], " ")
	case len(words) >= 2:
		return words[0]
	}
	return ""
}

// aboutPage reads the registers behind a message of warn_bad_vsyscall.
func (l *logLine) aboutPage(k Kind, rest string) {
	l.kind, l.signal = k, sigsegv
	l.ip, l.known.IP = number(rest, "ip:")
	l.sp, l.known.SP = number(rest, "sp:")
	if k == Call && l.known.IP {
		l.fault, l.known.Fault = l.ip, true
	}
}

// segfault reads "ADDRESS ip ADDRESS sp ADDRESS error N in FILE[START+SIZE]".
func (l *logLine) segfault(rest string) bool {
	l.signal = sigsegv
	addr, rest, _ := strings.Cut(rest, " ")
	var err error
	if l.fault, err = strconv.ParseUint(addr, 16, 64); err != nil {
		return false
	}
	l.known.Fault = true
	for _, name := range []string{"ip ", "rip "} {
		if l.ip, l.known.IP = number(" "+rest, " "+name); l.known.IP {
			break
		}
	}
	for _, name := range []string{"sp ", "rsp "} {
		if l.sp, l.known.SP = number(" "+rest, " "+name); l.known.SP {
			break
		}
	}
	if i := strings.Index(rest, " in "); i >= 0 {
		l.where, _, _ = strings.Cut(rest[i+len(" in "):], "[")
	}
	return l.known.IP
}

// protection reads a general protection fault, which has no address. On a processor with
// LASS a call of the page is one.
func (l *logLine) protection(rest string) bool {
	l.signal, l.kind = sigsegv, Other
	l.ip, l.known.IP = number(rest, "ip:")
	l.sp, l.known.SP = number(rest, "sp:")
	if i := strings.Index(rest, " in "); i >= 0 {
		l.where, _, _ = strings.Cut(rest[i+len(" in "):], "[")
	}
	if _, ok := rewriter.FunctionAt(l.ip); ok {
		l.kind = Call
	}
	return l.known.IP
}

// The audit messages of a crash (linux/audit.h): AUDIT_SECCOMP tells the address of the
// system call, AUDIT_ANOM_ABEND none.
func parseAudit(line string) (l logLine, ok bool) {
	seccomp := strings.Contains(line, "type=1326") || strings.Contains(line, "type=SECCOMP")
	if !seccomp && !strings.Contains(line, "type=1701") && !strings.Contains(line, "type=ANOM_ABEND") {
		return l, false
	}
	l.pid, _ = strconv.Atoi(field(line, " pid="))
	l.signal, _ = strconv.Atoi(field(line, " sig="))
	l.program, l.exe = field(line, " comm="), field(line, " exe=")
	if stamp := field(line, "audit("); stamp != "" {
		l.when, _, _ = strings.Cut(stamp, ":")
	}
	if l.pid <= 0 || l.signal <= 0 { // a filter that only logs is no crash
		return l, false
	}
	l.vague = !seccomp
	l.kind = Other
	if seccomp {
		l.ip, l.known.IP = number(line, " ip=0x")
	}
	return l, true
}

// field returns the value behind a key, without its quotes.
func field(line, key string) string {
	i := strings.Index(line, key)
	if i < 0 {
		return ""
	}
	rest := line[i+len(key):]
	if strings.HasPrefix(rest, `"`) {
		value, _, _ := strings.Cut(rest[1:], `"`)
		return value
	}
	end := strings.IndexAny(rest, " )")
	if end < 0 {
		end = len(rest)
	}
	return rest[:end]
}

// number reads the hex number behind a key.
func number(s, key string) (uint64, bool) {
	i := strings.Index(s, key)
	if i < 0 {
		return 0, false
	}
	s = strings.TrimPrefix(s[i+len(key):], "0x")
	end := 0
	for end < len(s) && strings.IndexByte("0123456789abcdefABCDEF", s[end]) >= 0 {
		end++
	}
	v, err := strconv.ParseUint(s[:end], 16, 64)
	return v, err == nil
}
