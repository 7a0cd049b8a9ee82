// The kernel's messages about a crash, wherever they are in a line. Sources: the kernel's
// arch/x86/entry/vsyscall/vsyscall_64.c (warn_bad_vsyscall), arch/x86/mm/fault.c (show_signal_msg),
// arch/x86/kernel/traps.c (show_signal), kernel/auditsc.c (audit_seccomp, audit_core_dumps):
//
//	bash[1] vsyscall attempted with vsyscall=none ip:… cs:33 sp:… ax:… si:… di:…
//	bash[1]: segfault at … ip … sp … error 15 in bash[400000+1000] likely on CPU 0 (…)
//	bash[1]: segfault at … rip … rsp … error 14             (2.6)
//	traps: bash[1] general protection fault ip:… sp:… error:0 in bash[…]
//	audit: type=1326 audit(…): … pid=1 comm="bash" exe="/bin/bash" sig=31 … ip=0x… code=…

package kernellog

import (
	"encoding/hex"
	"regexp"
	"strconv"
	"strings"
	"sync"
)

// Fault is what a message of the kernel reports about one process.
type Fault struct {
	Message Message
	Program string // the kernel's name of the process, up to 15 bytes
	Path    string // of the program, which only the audit reports
	PID     int
	Signal  int
	// IP is the address of the instruction, Addr the address that it could not access. HasAddr reports that the message
	// has Addr.
	IP, Addr uint64
	HasAddr  bool
}

// OfVfix reports that the process was one of vfix's own programs that try the page, among them vfix-measure-libc.
func (f *Fault) OfVfix() bool {
	return strings.HasPrefix(f.Program, "vfix-measure") || f.Program == "vfix-trace"
}

// The signals of the messages (signal(7)).
const (
	sigsegv = 11
	sigsys  = 31
)

// texts are the kernel's words.
var texts = map[string]Message{
	"vsyscall attempted with vsyscall=none": Attempted,
	"misaligned vsyscall":                   BadCall,
	"vsyscall read attempt denied":          ReadDenied,
	"vsyscall with bad stack":               BadCall,
	"vsyscall fault (exploit attempt?)":     BadCall,
	"segfault at":                           Segfault,
	"general protection":                    Protection,
}

// faultText matches a message. Kernels before 3.9 write (null) for the address 0.
var faultText = sync.OnceValue(func() *regexp.Regexp {
	var all []string
	for text := range texts {
		all = append(all, regexp.QuoteMeta(text))
	}
	const hex = `([0-9a-fA-F]+|\(null\))`
	return regexp.MustCompile(`\[(\d+)\]:? (` + strings.Join(all, "|") + `)(?: +` + hex + ` r?ip +|.*? ip:)` + hex)
})

// Find finds the kernel's message in a line of a log, behind any prefix; ok is false without one.
func Find(line string) (f Fault, ok bool) {
	if f, ok = findAudit(line); ok {
		return f, ok
	}
	if !strings.Contains(line, "vsyscall") && !strings.Contains(line, "segfault at") && !strings.Contains(line, "general protection") {
		return f, false
	}
	at := faultText().FindStringSubmatchIndex(line)
	if at == nil {
		return f, false
	}
	group := func(n int) string {
		if at[2*n] < 0 {
			return ""
		}
		return line[at[2*n]:at[2*n+1]]
	}
	f = Fault{Message: texts[group(2)], Program: lastName(line[:at[0]]), Signal: sigsegv}
	f.PID, _ = strconv.Atoi(group(1))
	f.IP, _ = strconv.ParseUint(group(4), 16, 64)
	f.Addr, _ = strconv.ParseUint(group(3), 16, 64)
	f.HasAddr = group(3) != ""
	if f.Message == Attempted {
		f.Addr, f.HasAddr = f.IP, true
	}
	return f, f.PID > 0 && (f.Message != Segfault || f.HasAddr)
}

// commLen is the longest name of a process, in bytes (TASK_COMM_LEN, with its NUL, is 16).
const commLen = 15

// lastName takes the name of a process from the end of the text before its number. The name may have spaces; what
// loggers put before it ends with one of a few separators.
func lastName(text string) string {
	for _, end := range []string{"] ", ": ", `"`, "=", "\t", ";", "> ", "| "} {
		if i := strings.LastIndex(text, end); i >= 0 && i+len(end) < len(text) {
			text = text[i+len(end):]
		}
	}
	if stamp, rest, ok := strings.Cut(text, " "); ok && strings.Count(stamp, "-") > 1 && strings.Contains(stamp, "T") { // dmesg --time-format iso
		text = rest
	}
	if strings.HasPrefix(text, "<") { // a priority without a space
		_, text, _ = strings.Cut(text, ">")
	}
	if i := strings.LastIndexByte(text, ' ') + 1; len(text) > commLen && i < len(text) {
		text = text[i:]
	}
	return text
}

// auditFields matches the fields of an audit message that count.
var auditFields = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`\b(pid|sig|ip|comm|exe)=("[^"]*"|\S*)`)
})

// findAudit finds an audit message (linux/audit.h): AUDIT_SECCOMP has the address of the system call,
// AUDIT_ANOM_ABEND none.
func findAudit(line string) (f Fault, ok bool) {
	switch {
	case strings.Contains(line, "type=1326"), strings.Contains(line, "type=SECCOMP"):
		f.Message = Seccomp
	case strings.Contains(line, "type=1701"), strings.Contains(line, "type=ANOM_ABEND"):
		f.Message = Abend
	default:
		return f, false
	}
	for _, m := range auditFields().FindAllStringSubmatch(line, -1) {
		switch value := m[2]; m[1] {
		case "pid":
			f.PID, _ = strconv.Atoi(value)
		case "sig":
			f.Signal, _ = strconv.Atoi(value)
		case "ip":
			f.IP, _ = strconv.ParseUint(strings.TrimPrefix(value, "0x"), 16, 64)
		case "comm":
			f.Program = auditName(value)
		case "exe":
			f.Path = auditName(value)
		}
	}
	return f, f.PID > 0 && f.Signal > 0 // a filter that only logs ends nothing
}

// auditName reads a name in an audit message. One with a space, a quote or a control character is in hex, without quotes
// (audit_log_untrustedstring).
func auditName(value string) string {
	if name, quoted := strings.CutPrefix(value, `"`); quoted {
		return strings.TrimSuffix(name, `"`)
	}
	if b, err := hex.DecodeString(value); err == nil {
		return string(b)
	}
	return value
}
