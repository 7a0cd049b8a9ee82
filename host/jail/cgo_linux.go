//go:build cgo

package jail

// Confine changes all threads of the process (syscall.AllThreadsSyscall), which a program with cgo cannot: it
// could not examine any file. Such a build fails here, with the missing setting as the name in the error.
var _ = build_vfix_with_CGO_ENABLED_0
