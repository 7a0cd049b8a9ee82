// Reading the kernel's log from /dev/kmsg.

package kernellog

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// maxRecord is the longest record of /dev/kmsg, in bytes: CONSOLE_EXT_LOG_MAX of older
	// kernels, PRINTK_MESSAGE_MAX of newer ones is 2 KiB.
	maxRecord = 8 << 10
	// maxRecords bounds the records read: the kernel's buffer holds fewer.
	maxRecords = 1 << 20
)

// Read reads all records that the kernel still has and that are its own, oldest first, from
// /dev/kmsg at a path; booted is the time from which they count.
func Read(path string) (all []Record, booted time.Time, err error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, booted, fmt.Errorf("%s: %w", path, err)
	}
	defer unix.Close(fd)
	var since unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &since); err != nil {
		return nil, booted, fmt.Errorf("clock_gettime: %w", err)
	}
	booted = time.Now().Add(-time.Duration(since.Nano()))
	b := make([]byte, maxRecord)
	for range maxRecords {
		n, err := unix.Read(fd, b)
		switch {
		case errors.Is(err, unix.EAGAIN), err == nil && n == 0:
			return all, booted, nil
		case errors.Is(err, unix.EPIPE), errors.Is(err, unix.EINTR), errors.Is(err, unix.EINVAL):
			continue // records were overwritten, and the next read is at the oldest; or one is too long
		case err != nil:
			return nil, booted, fmt.Errorf("%s: %w", path, err)
		}
		if r, ok := ParseRecord(string(b[:n])); ok {
			all = append(all, r)
		}
	}
	return all, booted, nil
}
