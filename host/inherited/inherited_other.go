//go:build !linux || !amd64

package inherited

// Restore is for Linux on x86-64, the systems on which vfix executes programs.
func Restore() {}
