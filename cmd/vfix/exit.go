// With which status vfix exits.

package main

import (
	"errors"
	"syscall"

	"vfix.dev/vfix/cmd/vfix/screen"
)

// The exit statuses. `vfix help exit-status` explains them to people.
const (
	statusDone       = 0
	statusError      = 1
	statusUsage      = 2
	statusFindings   = 3
	statusIncomplete = 4
	statusNotStarted = 125 // the statuses of env(1)
	statusNotExec    = 126
	statusNoCommand  = 127
	statusSignal     = 128 // and the number of the signal
	statusBrokenPipe = statusSignal + int(syscall.SIGPIPE)
)

// exitStatus is with which status an error, or none, ends vfix: the first that applies.
func exitStatus(err error) int {
	var sig *signalError
	var start *startError
	switch {
	case err == nil:
		return statusDone
	case errors.As(err, &sig):
		return sig.status()
	case isA[*usageError](err):
		return statusUsage
	case errors.As(err, &start):
		return start.status()
	case errors.Is(err, screen.ErrBrokenPipe):
		return statusBrokenPipe
	case isIncomplete(err):
		return statusIncomplete
	case isOnly[*findingsError](err):
		return statusFindings
	}
	return statusError
}
