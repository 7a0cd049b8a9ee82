// Locking a file with LockFileEx.

package atomicfile

import (
	"os"

	"golang.org/x/sys/windows"
)

// lockFile locks f with LockFileEx, which ends with the process.
func lockFile(f *os.File) error {
	const whole = 1 // one byte stands for the file: it is empty
	err := windows.LockFileEx(windows.Handle(f.Fd()),
		windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY, 0, whole, 0, &windows.Overlapped{})
	if err == windows.ERROR_LOCK_VIOLATION {
		return errTaken
	}
	return os.NewSyscallError("LockFileEx", err)
}

// shareLock: directories cannot be locked here.
func shareLock(*os.File) error { return nil }

// isOwn: the directory for temporary files is each user's own.
func isOwn(os.FileInfo) bool { return true }
