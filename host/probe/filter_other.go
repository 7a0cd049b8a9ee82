//go:build !linux || !amd64

// Stub for systems that no seccomp filter is compiled for.

package probe

import "errors"

// Filter compiles for Linux on x86-64 alone.
func Filter([]byte) (filter []byte, forbidden []string, err error) {
	return nil, nil, errors.New("seccomp filters need Linux")
}
