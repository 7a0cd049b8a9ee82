// A larger pipe between a decompressor and vfix.

package blob

import (
	"os"

	"golang.org/x/sys/unix"
)

// pipeSize is the requested size in bytes of the pipe between a decompressor and vfix: the most that
// an unprivileged process may have (/proc/sys/fs/pipe-max-size), 16 times the default.
const pipeSize = 1 << 20

// widenPipe makes the pipe larger if it may: fewer switches between two processes that
// share the work. A refusal costs only speed.
func widenPipe(pipe any) {
	if f, ok := pipe.(*os.File); ok {
		if c, err := f.SyscallConn(); err == nil {
			c.Control(func(fd uintptr) { unix.FcntlInt(fd, unix.F_SETPIPE_SZ, pipeSize) })
		}
	}
}
