//go:build !linux

package oldexaminer

// Main errs: there are no containers on this system.
func Main() int { return 1 }
