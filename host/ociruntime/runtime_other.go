//go:build !linux

// Stubs for systems other than Linux.

package ociruntime

import (
	"errors"
)

var errSystem = errors.New("vfix-runtime is for Linux machines only")

// Main errs: there are no containers on this system.
func Main([]string, Options) error { return errSystem }

// Index errs as well.
func Index([]string, string, Options) (*Indexed, error) { return nil, errSystem }

// Layers errs as well.
func Layers([]byte, string) ([]string, error) { return nil, errSystem }
