// Package kernellog reads the messages of Linux kernels, 2.6.32 to 6.x, about crashes of programs.
package kernellog

import (
	"fmt"
	"strings"
	"time"
)

// Message is a kind of kernel message.
type Message int

// The kernel's messages.
const (
	Attempted  Message = iota + 1 // a call of the page, which is not mapped
	ReadDenied                    // a read of the page
	BadCall                       // a call of the page outside its functions, or with a bad stack or pointer
	Segfault                      // SIGSEGV with the address
	Protection                    // a general protection fault: no address
	Seccomp                       // a seccomp filter ended the process
	Abend                         // the process ended by a signal
)

// Record is a message in the kernel's own format.
type Record struct {
	Text string
	At   time.Duration // since the machine was booted
}

// levels is how many levels a facility has; a priority is facility × levels + level (syslog(2)).
// Facility 0 is the kernel; programs write others.
const levels = 8

// ParseRecord reads a record of /dev/kmsg (Documentation/ABI/testing/dev-kmsg):
// "priority,sequence,microseconds,flags;text\n" and further lines, in the text \xHH for bytes that cannot be printed,
// which stay as they are. ok is false for other lines, also of programs.
func ParseRecord(record string) (r Record, ok bool) {
	head, text, found := strings.Cut(record, ";")
	var priority, sequence, us int64
	n, _ := fmt.Sscanf(head, "%d,%d,%d", &priority, &sequence, &us)
	const most = int64(1<<63-1) / int64(time.Microsecond)
	if !found || n < 3 || priority < 0 || priority >= levels || us < 0 || us > most {
		return r, false
	}
	text, _, _ = strings.Cut(text, "\n")
	return Record{text, time.Duration(us) * time.Microsecond}, true
}
