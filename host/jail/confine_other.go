//go:build linux && !amd64

package jail

import (
	"errors"
	"time"
)

// Bounds are what a confined process may use.
type Bounds struct {
	Memory int64
	Time   time.Duration
}

// The restrictions after Confine.
const (
	User     = "user"
	Landlock = "landlock"
	Seccomp  = "seccomp"
	Rlimits  = "rlimits"
)

// Confine errs: containers of legacy programs run on x86-64.
func Confine(Bounds) ([]string, error) {
	return nil, errors.New("confined processes are for linux/amd64")
}
