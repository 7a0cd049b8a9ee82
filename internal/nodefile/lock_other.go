//go:build !linux

package nodefile

import (
	"os"
	"time"
)

// Text is os.ReadFile.
func Text(path string) ([]byte, error) { return os.ReadFile(path) }

// Lock locks nothing on this system, on which no container starts.
func Lock(string, time.Duration) (func(), error) { return func() {}, nil }
