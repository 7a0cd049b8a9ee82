//go:build !linux

package kernellog

import (
	"errors"
	"time"
)

// Read returns an error: only Linux has this log.
func Read() ([]Record, time.Time, error) {
	return nil, time.Time{}, errors.New("the kernel log: only on Linux")
}
