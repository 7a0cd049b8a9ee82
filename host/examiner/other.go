//go:build !linux

package examiner

// Main returns an error status: only Linux has containers.
func Main() int { return 1 }
