// Executing the plugin's program, which is embedded in vfix.

package nri

import (
	"errors"
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// Start executes the plugin in place of this process, with the program of the hook. It
// returns if that is not possible.
func Start(o Options, plugin, hook []byte) error {
	self, err := memfile("vfix-nri", plugin)
	if err != nil {
		return err
	}
	program, err := memfile("vfix-runtime", hook)
	if err != nil {
		return err
	}
	o.Program = int(program.Fd())
	if _, err := unix.FcntlInt(program.Fd(), unix.F_SETFD, 0); err != nil { // the plugin inherits it
		return fmt.Errorf("vfix-runtime: %w", err)
	}
	args, err := o.arguments()
	if err != nil {
		return err
	}
	err = unix.Exec(fmt.Sprintf("/proc/self/fd/%d", self.Fd()), args, os.Environ())
	runtime.KeepAlive(self)
	runtime.KeepAlive(program)
	return fmt.Errorf("vfix-nri: %w", err)
}

// memfile makes an executable file in memory that is closed on exec: the kernel has opened it by then.
func memfile(name string, content []byte) (*os.File, error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC|unix.MFD_EXEC)
	if errors.Is(err, unix.EINVAL) { // Linux before 6.3 does not know MFD_EXEC
		fd, err = unix.MemfdCreate(name, unix.MFD_CLOEXEC)
	}
	if err != nil {
		return nil, fmt.Errorf("memfd_create: %w", err)
	}
	f := os.NewFile(uintptr(fd), name)
	_, err = f.WriteAt(content, 0) // which is read from its beginning
	return f, err
}
