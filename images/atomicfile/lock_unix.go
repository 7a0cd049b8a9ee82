//go:build unix

// Locking a file with flock(2), and whose a file is.

package atomicfile

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// lockFile locks f with flock(2), which ends with the process.
func lockFile(f *os.File) error { return flock(f, unix.LOCK_EX) }

// shareLock locks f together with others; an exclusive lock of the caller becomes a shared one.
func shareLock(f *os.File) error { return flock(f, unix.LOCK_SH) }

func flock(f *os.File, how int) error {
	for {
		switch err := unix.Flock(int(f.Fd()), how|unix.LOCK_NB); err {
		case unix.EINTR:
		case unix.EWOULDBLOCK:
			return errTaken
		case unix.ENOLCK, unix.ENOTSUP, unix.ENOSYS:
			return fmt.Errorf("%w: %w", errors.ErrUnsupported, err)
		default:
			return os.NewSyscallError("flock", err)
		}
	}
}

// isOwn reports whether a file is this user's.
func isOwn(fi os.FileInfo) bool {
	st, ok := fi.Sys().(*syscall.Stat_t)
	return ok && int(st.Uid) == os.Geteuid()
}
