//go:build !linux || !amd64

package inherited

// Restore is for Linux on x86-64, where vfix executes programs.
func Restore() {}
