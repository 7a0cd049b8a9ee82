// Executing the plugin's program, which is a part of vfix and not a file.

package nri

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Start executes the plugin in place of this process, with the program of the hook; nil for an audit. It
// returns where that is not possible.
func Start(o Options, plugin, hook []byte) error {
	self, err := memory("vfix-nri", plugin)
	if err != nil {
		return err
	}
	if o.Program, err = memory("vfix-runtime", hook); err != nil {
		return err
	}
	if _, err := unix.FcntlInt(uintptr(o.Program), unix.F_SETFD, 0); err != nil { // the plugin inherits it
		return fmt.Errorf("vfix-runtime: %w", err)
	}
	args, err := o.arguments()
	if err != nil {
		return err
	}
	return fmt.Errorf("vfix-nri: %w", unix.Exec(fmt.Sprintf("/proc/self/fd/%d", self), args, os.Environ()))
}

// memory is a file that is nowhere, with a content, to be read from its beginning.
func memory(name string, content []byte) (int, error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC)
	if err != nil {
		return -1, fmt.Errorf("%s: %w", name, err)
	}
	for at := 0; at < len(content); {
		n, err := unix.Pwrite(fd, content[at:], int64(at))
		if err != nil {
			return -1, fmt.Errorf("%s: %w", name, err)
		}
		at += n
	}
	return fd, nil
}
