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
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

// Message is a kind of kernel message.
type Message int

// The kernel's messages.
const (
	Attempted  Message = iota + 1 // a call of the page, which is not mapped
	Misaligned                    // a call of the page outside its functions
	ReadDenied                    // a read of the page
	BadStack                      // a call of the page with a stack that cannot be read
	BadPointer                    // a call of the page with a pointer that cannot be written to
	Filtered                      // a call of the page that a seccomp tracer changed
	Segfault                      // SIGSEGV with the address
	Protection                    // a general protection fault: no address
	Seccomp                       // a seccomp filter ended the process
	Abend                         // the process ended by a signal
)

// messages are the kernel's words for those that are not of the audit.
var messages = map[string]Message{
	"vsyscall attempted with vsyscall=none":                  Attempted,
	"misaligned vsyscall (exploit attempt or buggy program)": Misaligned,
	"vsyscall read attempt denied":                           ReadDenied,
	"vsyscall with bad stack (exploit attempt?)":             BadStack,
	"vsyscall fault (exploit attempt?)":                      BadPointer,
	"seccomp tried to change syscall nr or ip":               Filtered,
	"segfault at":        Segfault,
	"general protection": Protection,
}

// marks are parts of these messages, one in each: searching for them is faster than the expression.
var marks = []string{"vsyscall", "seccomp", "segfault", "general protection"}

// message is a message about a process, NAME[PID]. Its name, and that of the file, may contain anything: the
// first place that matches the kernel's format counts. Some kernels write a colon after each pid.
var message = sync.OnceValue(func() *regexp.Regexp {
	var words []string
	for w := range messages {
		words = append(words, regexp.QuoteMeta(w))
	}
	const hex = `([0-9a-fA-F]+)`
	return regexp.MustCompile(`^(.*?)\[(\d+)\]:? (` + strings.Join(words, "|") + `)(?: ` + hex + ` r?ip |.*? ip:)` + hex + `(?:.*? r?sp[ :]` + hex + `)?(?:.*? in ([^\[]*))?`)
})

// Event is a message of the kernel about a crash.
type Event struct {
	Message
	Program, Exe, When string
	PID                int
	Signal             syscall.Signal
	// Addresses, and whether the message has them.
	Fault, IP, SP                uint64
	KnownFault, KnownIP, KnownSP bool
	Where                        string // the file that the kernel names after "in"
	// Relayed says that more precedes the message than in the kernel's log: somebody quotes it.
	Relayed bool
}

// Parse reads a line of a log, with anything that a logger added; ok is false for lines
// about something else, and for what a program wrote.
func Parse(line string) (Event, bool) {
	l, ok := Strip(line)
	if !ok {
		return Event{}, false
	}
	return l.Event()
}

// Event is Parse for a line that was already stripped.
func (l Line) Event() (e Event, ok bool) {
	if e, ok := parseAudit(l); ok {
		return e, ok
	}
	if !slices.ContainsFunc(marks, func(mark string) bool { return strings.Contains(l.Text, mark) }) {
		return e, false
	}
	m := message().FindStringSubmatch(l.Text)
	if m == nil {
		return e, false
	}
	e = Event{Message: messages[m[3]], Signal: syscall.SIGSEGV, When: l.When, Where: m[7]}
	e.PID, _ = strconv.Atoi(m[2])
	e.name(m[1], l.Marked)
	e.Fault, e.KnownFault = number(m[4])
	e.IP, e.KnownIP = number(m[5])
	e.SP, e.KnownSP = number(m[6])
	if e.Message == Attempted {
		e.Fault, e.KnownFault = e.IP, e.KnownIP
	}
	return e, e.PID > 0 && e.KnownIP && e.KnownFault == (e.Message == Segfault || e.Message == Attempted)
}

// name takes the process's name from the text before its number. It may have spaces and brackets in it, and has 15 bytes at
// most (TASK_COMM_LEN).
func (e *Event) name(name string, marked bool) {
	const commLen = 15
	name = strings.TrimPrefix(name, "traps: ")
	unknown := len(name) > commLen || strings.Contains(name, ": ") || !marked && strings.ContainsAny(name, "|:")
	e.Relayed = unknown || !marked && strings.Contains(name, " ")
	if last := strings.LastIndexByte(name, ' ') + 1; unknown && last < len(name) { // the name is the last word
		name = name[last:]
	}
	e.Program = name
}

// parseAudit reads the audit messages of a crash (linux/audit.h): AUDIT_SECCOMP gives the
// address of the system call, AUDIT_ANOM_ABEND none.
func parseAudit(l Line) (e Event, ok bool) {
	switch {
	case strings.Contains(l.Text, "type=1326"), strings.Contains(l.Text, "type=SECCOMP"):
		e.Message = Seccomp
		e.IP, e.KnownIP = number(field(l.Text, " ip=0x"))
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

// field returns the value after a key, without its quotes.
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

// number reads a hex number; false for none.
func number(hex string) (uint64, bool) {
	v, err := strconv.ParseUint(hex, 16, 64)
	return v, err == nil
}
