//go:build !unix

package blob

import (
	"os/exec"
)

// apart does nothing where no decompressor is run that a terminal could end.
func Apart(*exec.Cmd) {}
