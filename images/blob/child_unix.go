//go:build unix

// The process group of a decompressor, so that ^C in a terminal does not reach it.

package blob

import (
	"os/exec"
	"syscall"
)

// Apart puts a child into a process group of its own: a terminal sends ^C to all of the
// group in front, and a decompressor that dies of it looks like damage. vfix ends its
// children itself.
func Apart(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }
