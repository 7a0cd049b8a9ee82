// With which status vfix exits.

package main

import (
	"errors"
	"os"
	"syscall"

	"vfix.dev/vfix/cmd/vfix/screen"
	"vfix.dev/vfix/host/run"
)

// The exit statuses. `vfix help exit-status` explains them to people.
const (
	statusDone        = 0
	statusError       = 1
	statusUsage       = 2
	statusFindings    = 3
	statusIncomplete  = 4
	statusNotStarted  = 125 // the statuses of env(1)
	statusNotExec     = 126
	statusNoCommand   = 127
	statusHangup      = 128 + int(syscall.SIGHUP)
	statusInterrupted = 128 + int(syscall.SIGINT)
	statusBrokenPipe  = 128 + int(syscall.SIGPIPE)
	statusTerminated  = 128 + int(syscall.SIGTERM)
)

// exitTable says which error ends with which status. The first row that matches wins; an
// error that matches none ends with statusError.
var exitTable = []struct {
	matches func(error) bool
	status  int
}{
	{func(err error) bool { return err == nil }, statusDone},
	{isSignal(os.Interrupt), statusInterrupted},
	{isSignal(syscall.SIGHUP), statusHangup},
	{isSignal(syscall.SIGTERM), statusTerminated},
	{isA[*usageError], statusUsage},
	{isStart(run.ErrNoCommand), statusNoCommand},
	{isStart(run.ErrNotExecutable), statusNotExec},
	{isStart(nil), statusNotStarted},
	{func(err error) bool { return errors.Is(err, screen.ErrBrokenPipe) }, statusBrokenPipe},
	{isIncomplete, statusIncomplete},
	{isOnly[*findingsError], statusFindings},
}

// exitStatus looks err up in exitTable.
func exitStatus(err error) int {
	for _, row := range exitTable {
		if row.matches(err) {
			return row.status
		}
	}
	return statusError
}
