//go:build !linux

// Stubs for systems other than Linux.

package ociruntime

import (
	"errors"
)

var errSystem = errors.New("vfix-runtime needs Linux")

// Main returns an error: this system has no containers.
func Main([]string, Options) error { return errSystem }

// Index returns the same error.
func Index([]string, string, Options) (*Indexed, error) { return nil, errSystem }

// Layers returns the same error.
func Layers([]byte, string) ([]string, error) { return nil, errSystem }
