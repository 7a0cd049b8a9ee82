// The errors that the command makes itself, and the exit status of each. The hint of each says what a user can do;
// errors.go and package hints are all that main needs to know of errors.

package main

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"syscall"

	"vfix.dev/vfix/cmd/vfix/screen"
)

// usageError is an invalid command line: status 2.
type usageError struct {
	verb string // "patch"; "" for vfix itself
	msg  string
	hint string // "" for the help of the verb
}

func (e *usageError) Error() string { return e.msg }

func (e *usageError) Hint() string {
	switch {
	case e.hint != "":
		return e.hint
	case e.verb == "":
		return "run 'vfix help'"
	}
	return fmt.Sprintf("run 'vfix %s --help'", e.verb)
}

func usagef(verb, format string, a ...any) error {
	return &usageError{verb: verb, msg: fmt.Sprintf(format, a...)}
}

// findingsError says that the work is done and something remains to be looked at: status 3, or 4 if a part
// could not be examined, which may change the result.
type findingsError struct {
	msg  string
	hint string
	// printed says that the verb has already printed both on stdout, in its own words.
	printed bool
	// incomplete says that something was not examined, so that the verdict is not known: status 4.
	incomplete bool
}

func finding(hint, format string, a ...any) *findingsError {
	return &findingsError{msg: fmt.Sprintf(format, a...), hint: hint}
}

// incompletef is the finding that something was not examined.
func incompletef(hint, format string, a ...any) *findingsError {
	return &findingsError{msg: fmt.Sprintf(format, a...), hint: hint, incomplete: true}
}

func (e *findingsError) Error() string { return e.msg }

func (e *findingsError) Hint() string { return e.hint }

// signalError is the cause of a context that a signal cancelled.
type signalError struct{ signal os.Signal }

func (e *signalError) Error() string { return fmt.Sprintf("stopped by a signal (%s)", e.signal) }

func (e *signalError) status() int {
	if s, ok := e.signal.(syscall.Signal); ok {
		return statusSignal + int(s)
	}
	return statusError
}

func (e *signalError) Hint() string {
	return "no partial result is left behind; you can run the command again"
}

// joined is the type of what errors.Join returns. An error of fmt.Errorf with several %w
// has the same Unwrap, but its own text, so it is not split.
var joined = reflect.TypeOf(errors.Join(screen.ErrBrokenPipe))

// flatten returns the errors that err joins, or itself.
func flatten(err error) []error {
	if err == nil {
		return nil
	}
	if reflect.TypeOf(err) != joined {
		return []error{err}
	}
	var all []error
	for _, e := range err.(interface{ Unwrap() []error }).Unwrap() {
		all = append(all, flatten(e)...)
	}
	return all
}

// isA reports whether err is, wraps or joins a T.
func isA[T error](err error) bool {
	var t T
	return errors.As(err, &t)
}

// isOnly reports whether every error that err joins is a T: an error beside findings is
// an error.
func isOnly[T error](err error) bool {
	for _, e := range flatten(err) {
		if !isA[T](e) {
			return false
		}
	}
	return err != nil
}

// isIncomplete reports whether there are findings alone, and one of them is that something was not examined.
func isIncomplete(err error) bool {
	return isOnly[*findingsError](err) && slices.ContainsFunc(flatten(err), func(e error) bool {
		var f *findingsError
		return errors.As(e, &f) && f.incomplete
	})
}

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

// exitStatus is the exit status for an error, or for none: the first that applies.
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
