//go:build !linux || !amd64

// Stub for systems that vfix run does not support.

package run

import (
	"runtime"

	"vfix.dev/vfix/internal/hinterr"
)

// Run starts programs on Linux on x86-64 alone.
func Run([]string, Options) error {
	return hinterr.Errorf(ErrUnsupported, "this is %s/%s, and only linux/amd64 has programs that call the vsyscall page", runtime.GOOS, runtime.GOARCH)
}
