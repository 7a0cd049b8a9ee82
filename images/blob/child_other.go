//go:build !unix

// The process group of a decompressor: nothing to do on this system.

package blob

import (
	"os/exec"
)

// Apart does nothing: no decompressor is run here that a terminal could end.
func Apart(*exec.Cmd) {}
