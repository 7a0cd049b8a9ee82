// The parts of disk_unix.go for macOS.

package contents

import (
	"io/fs"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const errNoXattr = unix.ENOATTR

// changeTime returns when a file's content or metadata last changed.
func changeTime(fi fs.FileInfo) time.Time {
	if st, ok := fi.Sys().(*syscall.Stat_t); ok {
		return time.Unix(st.Ctimespec.Unix())
	}
	return fi.ModTime()
}

// Special returns false: no directory of a walk is on a special file system here.
func Special(*os.Root, string) bool { return false }
