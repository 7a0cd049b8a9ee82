//go:build !linux || !amd64

// Stub for systems that vfix run does not support.

package run

import (
	"vfix.dev/vfix/internal/hinterr"
)

// Run starts programs on Linux on x86-64 alone.
func Run([]string, Options) error {
	return hinterr.With(hinterr.Errorf(hinterr.ErrUnsupported, "vfix run works on linux/amd64 alone"),
		"run it on the machine or in the container that the program is for")
}
