//go:build !linux

// Stubs for systems other than Linux.

package ociruntime

import (
	"errors"
)

var errSystem = errors.New("vfix-runtime is for Linux machines only")

// Main errs: there are no containers on this system.
func Main([]string, Options) error { return errSystem }
