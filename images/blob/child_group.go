// The process group of a decompressor, so that ^C in a terminal does not reach it.

package blob

import (
	"os/exec"
	"syscall"
)

// apart puts a child into a process group of its own: a terminal sends ^C to the whole
// foreground group, and a decompressor that ^C ends looks like a damaged blob. vfix ends its
// children itself.
func apart(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }
