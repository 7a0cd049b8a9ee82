// Package kernellog reads the messages of Linux kernels, 2.6.32 to 6.x, about crashes of programs.
package kernellog

import (
	"fmt"
	"strconv"
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

// Record is a message in the kernel's log.
type Record struct {
	Text string
	At   time.Duration // since the machine was booted
}

// levels is how many levels a facility has; a priority is facility × levels + level (syslog(2)).
// Facility 0 is the kernel; programs write others.
const levels = 8

// ParseRecord reads a line of the kernel's log as syslog(2) gives it: "<priority>[seconds] text"; a kernel without
// printk.time leaves out the seconds. ok is false for other lines, also of programs.
func ParseRecord(line string) (r Record, ok bool) {
	priority, text, found := strings.Cut(strings.TrimPrefix(line, "<"), ">")
	n, err := strconv.Atoi(priority)
	if !found || err != nil || n < 0 || n >= levels {
		return r, false
	}
	r.Text = text
	if stamp, text, found := strings.Cut(text, "] "); found {
		seconds := 0.0
		if _, err := fmt.Sscanf(stamp, "[%f", &seconds); err == nil {
			r = Record{text, time.Duration(seconds * float64(time.Second))}
		}
	}
	return r, true
}
