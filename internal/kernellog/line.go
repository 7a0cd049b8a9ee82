// Package kernellog reads the log of a Linux kernel, 2.6.32 to 6.x: the text that loggers add to its
// messages, and the messages about a crash.
package kernellog

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Line is a message of the kernel.
type Line struct {
	Text string // without level, time and host
	When string // in the log's form; "" if it has none
	// Marked says that the text around the message shows a log of the kernel.
	Marked bool
}

// expression is compiled when it is first needed.
func expression(text string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(text) })
}

// logged is how syslog and journalctl write a line, maybe behind the name of its file: a time, in any language, a host,
// and who wrote it.
var logged = expression(`^(?:[^\s:]+:(?:\d+:)?)?((?:[^\s\[]+ [ \d]\d(?: \d{4})? \d\d:\d\d:\d\d\S*|(?:[^\s\[]+ )?\d{4}-\d\d-\d\d[T ]\d\d:\d\d[^\s,]*|\d{10}\.\d+)(?: [A-Z]{2,5})?) ` +
	`[^\s\[\]]*[^\s\[\]:] ([^\s:\[]+)(?:\[\d+\])?: `)

// isoStamp is dmesg --time-format iso.
var isoStamp = expression(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d,\d{6}[+-]\d\d:\d\d `)

// marked is a priority, or a facility and a level as dmesg -x and Talos write them.
var marked = expression(`^(?:<(\d{1,3})>)?(?: *(kern|user) *:(?:[^\[\]:]*: )?)?`)

// writers are the sources of kernel messages in a log: the kernel's own name, and those of the audit daemon.
var writers = []string{"kernel", "audit", "auditd", "audispd", "audisp-syslog"}

// Strip parses a line in the format of syslog, journalctl, dmesg, Talos or /dev/kmsg:
//
//	Nov 21 21:14:17 host kernel: [  12.34] text
//	[  12.34][  T106] text
//	kern  :info  : [  12.34] text
//	<6>[  12.34] text
//	6,1234,12340000,-;text
//
// ok is false for a line that a program wrote to the kernel's log, as far as the line shows it: a program can
// write anything.
func Strip(line string) (l Line, ok bool) {
	s := strings.TrimRight(line, "\r\n")
	if r, ours, is := parseRecord(s); is {
		return Line{r.Text, r.When(), true}, ours
	}
	if m := logged().FindStringSubmatch(s); m != nil {
		if !slices.Contains(writers, m[2]) {
			return l, false
		}
		l.When, l.Marked, s = m[1], true, s[len(m[0]):]
	} else if before, after, is := strings.Cut(s, "kernel: "); is && !strings.Contains(before, "[") {
		// The time is before the host's name, which is the last word.
		before = strings.TrimSpace(before)
		l.When, l.Marked, s = strings.TrimSpace(before[:max(strings.LastIndexByte(before, ' '), 0)]), true, after
	} else if stamp := isoStamp().FindString(s); stamp != "" {
		l.When, l.Marked, s = strings.TrimSpace(stamp), true, s[len(stamp):]
	}
	m := marked().FindStringSubmatch(s)
	if priority, _ := strconv.Atoi(m[1]); priority >= levels || m[2] == "user" {
		return l, false
	}
	l.Marked, s = l.Marked || m[0] != "", s[len(m[0]):]
	s = strings.TrimSpace(s)
	for strings.HasPrefix(s, "[") {
		end := strings.IndexByte(s, ']')
		if end < 0 || !isStamp(s[1:end]) {
			break
		}
		if l.When == "" {
			l.When = strings.TrimSpace(s[1:end])
			l.Marked = l.Marked || kernelStamp().MatchString(l.When)
		}
		s = strings.TrimLeft(strings.TrimPrefix(s[end+1:], ":"), " ")
	}
	l.Text = s
	return l, true
}

// kernelStamp is a time as dmesg writes it, in seconds or with -T: programs write their own otherwise.
var kernelStamp = expression(`^(?:\d+\.\d+|[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \d{4})$`)

// isStamp says whether a text in brackets is a time (12.3; Sat Nov 21 21:18:04 2026) or the
// caller that CONFIG_PRINTK_CALLER adds (T106, C0). Anything else is part of a name.
func isStamp(s string) bool {
	s = strings.TrimSpace(s)
	if len(s) > 1 && (s[0] == 'T' || s[0] == 'C') {
		if _, err := strconv.Atoi(s[1:]); err == nil {
			return true
		}
	}
	return strings.ContainsAny(s, ".:") && strings.ContainsAny(s, "0123456789")
}

// Record is a message in the kernel's own format.
type Record struct {
	Text string
	At   time.Duration // since the machine was started
}

// When is the time in words.
func (r Record) When() string { return fmt.Sprintf("%.3f s after boot", r.At.Seconds()) }

// levels is how many levels a facility has; a priority is facility × levels + level (syslog(2)).
// Facility 0 is the kernel; what programs write has another.
const levels = 8

// ParseRecord reads a record of /dev/kmsg (Documentation/ABI/testing/dev-kmsg):
// "priority,sequence,microseconds,flags;text\n" and further lines, in the text \xHH for bytes
// that cannot be printed. ok is false for other lines, also of other programs.
func ParseRecord(record string) (r Record, ok bool) {
	r, ours, ok := parseRecord(record)
	return r, ok && ours
}

func parseRecord(record string) (r Record, ours, ok bool) {
	head, text, ok := strings.Cut(record, ";")
	f := strings.Split(head, ",")
	if !ok || len(f) < 3 {
		return r, false, false
	}
	priority, err1 := strconv.Atoi(f[0])
	us, err2 := strconv.ParseInt(f[2], 10, 63)
	const most = int64(1<<63-1) / int64(time.Microsecond)
	if err1 != nil || err2 != nil || priority < 0 || us < 0 || us > most {
		return r, false, false
	}
	text, _, _ = strings.Cut(text, "\n")
	return Record{unescape(text), time.Duration(us) * time.Microsecond}, priority < levels, true
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
