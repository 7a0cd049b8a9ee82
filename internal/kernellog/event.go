// Messages about a crash. Sources: the kernel's arch/x86/entry/vsyscall/vsyscall_64.c
// (warn_bad_vsyscall), arch/x86/mm/fault.c (show_signal_msg), arch/x86/kernel/traps.c
// (show_signal), kernel/auditsc.c (audit_seccomp, audit_core_dumps):
//
//	bash[1] vsyscall attempted with vsyscall=none ip:… cs:33 sp:… ax:… si:… di:…
//	bash[1]: segfault at … ip … sp … error 15 in bash[400000+1000] likely on CPU 0 (…)
//	bash[1]: segfault at … rip … rsp … error 14             (2.6)
//	traps: bash[1] general protection fault ip:… sp:… error:0 in bash[…]
//	audit: type=1326 audit(…): … pid=1 comm="bash" exe="/bin/bash" sig=31 … ip=0x… code=…

package kernellog

import (
	"strconv"
	"strings"
	"syscall"
)

// Message is what the kernel says.
type Message int

// The kernel's messages.
const (
	Attempted  Message = iota + 1 // a call of the page, which is not mapped
	Misaligned                    // a call of the page beside its functions
	ReadDenied                    // a read of the page
	BadStack                      // a call of the page with a stack that cannot be read
	BadPointer                    // a call of the page with a pointer that cannot be written to
	Filtered                      // a call of the page, and what a seccomp tracer made of it
	Segfault                      // SIGSEGV with the address
	Protection                    // a general protection fault: no address
	Seccomp                       // a seccomp filter ended the process
	Abend                         // the process ended by a signal
)

// aboutPage are the kernel's words about the page.
var aboutPage = [...]string{
	Attempted:  "vsyscall attempted with vsyscall=none",
	Misaligned: "misaligned vsyscall (exploit attempt or buggy program)",
	ReadDenied: "vsyscall read attempt denied",
	BadStack:   "vsyscall with bad stack (exploit attempt?)",
	BadPointer: "vsyscall fault (exploit attempt?)",
	Filtered:   "seccomp tried to change syscall nr or ip",
}

// Event is a message of the kernel about a crash.
type Event struct {
	Message
	Program, Exe, When string
	PID                int
	Signal             syscall.Signal
	// Addresses, and whether the message has them.
	Fault, IP, SP                uint64
	KnownFault, KnownIP, KnownSP bool
	Where                        string // the file that the kernel names behind "in"
	// Relayed says that more is before the message than a log of the kernel has there: somebody repeats its words.
	Relayed bool
}

// Parse reads a line of a log, with whatever a logger put around it; ok is false for lines
// about something else, and for what a program wrote.
func Parse(line string) (Event, bool) {
	l, ok := Strip(line)
	if !ok {
		return Event{}, false
	}
	return l.Event()
}

// Event is Parse for a line that was taken apart.
func (l Line) Event() (e Event, ok bool) {
	if e, ok := parseAudit(l); ok {
		return e, ok
	}
	for m := Attempted; m <= Filtered; m++ {
		// Some kernels have a colon behind the pid.
		for _, between := range []string{"] ", "]: "} {
			if e, ok := l.find(m, between+aboutPage[m], (*Event).registers); ok {
				return e, ok
			}
		}
	}
	if e, ok := l.find(Segfault, "]: segfault at ", (*Event).segfault); ok {
		return e, ok
	}
	return l.find(Protection, "] general protection", (*Event).registers)
}

// find reads the message whose text is words. The program's name precedes it, the file's
// behind it, and both may hold anything: the first place where all is as the kernel writes it
// counts.
func (l Line) find(m Message, words string, read func(e *Event, rest string) bool) (Event, bool) {
	for from := 0; ; {
		i := strings.Index(l.Text[from:], words)
		if i < 0 {
			return Event{}, false
		}
		at := from + i
		e := Event{Message: m, Signal: syscall.SIGSEGV, When: l.When}
		if e.who(l.Text[:at+1], l.Marked) && read(&e, l.Text[at+len(words):]) {
			return e, true
		}
		from = at + 1
	}
}

// who takes the process, NAME[PID], from the text before the message. A name may have
// spaces and brackets in it, and has 15 bytes at most (TASK_COMM_LEN).
func (e *Event) who(head string, marked bool) bool {
	open := strings.LastIndexByte(head, '[')
	if open < 0 {
		return false
	}
	pid, err := strconv.Atoi(strings.TrimSuffix(head[open+1:], "]"))
	if err != nil || pid <= 0 {
		return false
	}
	const commLen = 15
	name := strings.TrimPrefix(head[:open], "traps: ")
	unknown := len(name) > commLen || strings.Contains(name, ": ") || !marked && strings.ContainsAny(name, "|:")
	e.Relayed = unknown || !marked && strings.Contains(name, " ")
	if last := strings.LastIndexByte(name, ' ') + 1; unknown && last < len(name) { // the name is the last word
		name = name[last:]
	}
	e.PID, e.Program = pid, name
	return true
}

// registers reads "ip:ADDRESS … sp:ADDRESS … in FILE[START+SIZE]".
func (e *Event) registers(rest string) bool {
	e.IP, e.KnownIP = number(rest, "ip:")
	e.SP, e.KnownSP = number(rest, "sp:")
	if e.Message == Attempted && e.KnownIP {
		e.Fault, e.KnownFault = e.IP, true
	}
	e.in(rest)
	return e.KnownIP
}

// segfault reads "ADDRESS ip ADDRESS sp ADDRESS error N in FILE[START+SIZE]".
func (e *Event) segfault(rest string) bool {
	addr, rest, _ := strings.Cut(rest, " ")
	var err error
	if e.Fault, err = strconv.ParseUint(addr, 16, 64); err != nil {
		return false
	}
	e.KnownFault = true
	for _, name := range []string{" ip ", " rip "} {
		if e.IP, e.KnownIP = number(" "+rest, name); e.KnownIP {
			break
		}
	}
	for _, name := range []string{" sp ", " rsp "} {
		if e.SP, e.KnownSP = number(" "+rest, name); e.KnownSP {
			break
		}
	}
	e.in(rest)
	return e.KnownIP
}

func (e *Event) in(rest string) {
	if _, file, ok := strings.Cut(rest, " in "); ok {
		e.Where, _, _ = strings.Cut(file, "[")
	}
}

// parseAudit reads the audit messages of a crash (linux/audit.h): AUDIT_SECCOMP gives the
// address of the system call, AUDIT_ANOM_ABEND none.
func parseAudit(l Line) (e Event, ok bool) {
	switch {
	case strings.Contains(l.Text, "type=1326"), strings.Contains(l.Text, "type=SECCOMP"):
		e.Message = Seccomp
		e.IP, e.KnownIP = number(l.Text, " ip=0x")
	case strings.Contains(l.Text, "type=1701"), strings.Contains(l.Text, "type=ANOM_ABEND"):
		e.Message = Abend
	default:
		return e, false
	}
	e.Relayed = !l.Marked && !strings.HasPrefix(l.Text, "audit") && !strings.HasPrefix(l.Text, "type=")
	e.PID, _ = strconv.Atoi(field(l.Text, " pid="))
	signal, _ := strconv.Atoi(field(l.Text, " sig="))
	e.Signal = syscall.Signal(signal)
	e.Program, e.Exe, e.When = field(l.Text, " comm="), field(l.Text, " exe="), l.When
	if stamp := field(l.Text, "audit("); stamp != "" {
		e.When, _, _ = strings.Cut(stamp, ":")
	}
	return e, e.PID > 0 && signal > 0 // a filter that only logs is not a crash
}

// field returns the value behind a key, without its quotes.
func field(line, key string) string {
	_, rest, ok := strings.Cut(line, key)
	if !ok {
		return ""
	}
	if quoted, is := strings.CutPrefix(rest, `"`); is {
		value, _, _ := strings.Cut(quoted, `"`)
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
	_, s, ok := strings.Cut(s, key)
	if !ok {
		return 0, false
	}
	s = strings.TrimPrefix(s, "0x")
	end := 0
	for end < len(s) && strings.IndexByte("0123456789abcdefABCDEF", s[end]) >= 0 {
		end++
	}
	v, err := strconv.ParseUint(s[:end], 16, 64)
	return v, err == nil
}
