//go:build !unix

package blob

import (
	"os/exec"
)

// Apart does nothing where no decompressor is run that a terminal could end.
func Apart(*exec.Cmd) {}
