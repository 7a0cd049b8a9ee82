// Executing the plugin's program, which is embedded in vfix.

package nri

import (
	"bytes"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Start executes the plugin in place of this process, with the program of the hook. It
// returns if that is not possible.
func Start(o Options, plugin, hook []byte) error {
	self, err := memfile("vfix-nri", bytes.NewReader(plugin))
	if err != nil {
		return err
	}
	if o.Program, err = memfile("vfix-runtime", bytes.NewReader(hook)); err != nil {
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
