//go:build unix

package atomicfile

import (
	"os"

	"golang.org/x/sys/unix"
)

// Lock waits until no other run holds the lock of a directory, and takes it. A file system without locks has none to
// wait for. The lock ends with the process.
func Lock(dir string) (unlock func(), err error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	for {
		if err := unix.Flock(int(d.Fd()), unix.LOCK_EX); err != unix.EINTR {
			return func() { d.Close() }, nil
		}
	}
}
