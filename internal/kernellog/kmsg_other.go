//go:build !linux

package kernellog

import (
	"errors"
	"time"
)

// Read returns an error: only Linux has /dev/kmsg.
func Read(path string) ([]Record, time.Time, error) {
	return nil, time.Time{}, errors.New(path + ": only on Linux")
}
