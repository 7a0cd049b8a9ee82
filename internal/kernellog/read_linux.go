package kernellog

import (
	"fmt"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Read reads the records that the kernel still has and that are its own, oldest first, by syslog(2); booted is the time from
// which they count.
func Read() (all []Record, booted time.Time, err error) {
	size, err := unix.Klogctl(unix.SYSLOG_ACTION_SIZE_BUFFER, nil)
	b := make([]byte, max(size, 0))
	if err == nil {
		size, err = unix.Klogctl(unix.SYSLOG_ACTION_READ_ALL, b)
	}
	if err != nil {
		return nil, booted, fmt.Errorf("the kernel log: %w", err)
	}
	var since unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &since); err != nil {
		return nil, booted, fmt.Errorf("clock_gettime: %w", err)
	}
	for line := range strings.Lines(string(b[:size])) {
		if r, ok := ParseRecord(strings.TrimSuffix(line, "\n")); ok {
			all = append(all, r)
		}
	}
	return all, time.Now().Add(-time.Duration(since.Nano())), nil
}
