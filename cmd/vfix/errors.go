// How errors are printed, those that the command makes itself, and the exit status of each.

package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"slices"
	"syscall"

	"vfix.dev/vfix/cmd/vfix/screen"
	"vfix.dev/vfix/internal/hinterr"
)

// output prints the results of verbs, as text or JSON, and errors. Its rules are in package screen.
type output struct{ *screen.Output }

func newOutput(stdout, stderr io.Writer) *output { return &output{screen.New(stdout, stderr)} }

// fail prints an error and what to do about it. Findings are a report, not an error.
func (o *output) fail(err error) {
	label := "error:"
	if found, is := errors.AsType[*findingsError](err); is {
		if label = ""; found.printed {
			return
		}
	}
	if err == screen.ErrBrokenPipe {
		return
	}
	if tried, is := errors.AsType[*hinterr.Tried](err); is {
		o.Say(label, o.Err.Paint.Red, tried.Head())
		for _, place := range tried.Places {
			o.Say("  tried:", o.Err.Paint.Dim, place.Error())
		}
	} else {
		o.Say(label, o.Err.Paint.Red, err.Error())
	}
	if hint := screen.HintOf(err, issues); hint != "" {
		o.Say("hint:", o.Err.Paint.Bold, hint)
	}
}

// usageError is an invalid command line: status 2. Without a hint of its own main adds one about the verb.
type usageError struct{ msg, hint string }

func (e *usageError) Error() string { return e.msg }
func (e *usageError) Hint() string  { return e.hint }

func usagef(format string, a ...any) error { return &usageError{msg: fmt.Sprintf(format, a...)} }

// findingsError says that the work is done and something remains to be looked at: status 3, or 4 if nothing was found
// and a part could not be examined.
type findingsError struct {
	msg, hint string
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

// onStdout is the finding if stdout has it already, or not.
func (e *findingsError) onStdout(printed bool) *findingsError {
	e.printed = printed
	return e
}

func (e *findingsError) Error() string { return e.msg }
func (e *findingsError) Hint() string  { return e.hint }

// signalError is the cause of a context that a signal cancelled.
type signalError struct{ signal syscall.Signal }

func (e *signalError) Error() string { return fmt.Sprintf("stopped by a signal (%s)", e.signal) }
func (e *signalError) Hint() string {
	return "no partial result is left behind; you can run the command again"
}

// joined is the type of what errors.Join returns. An error of fmt.Errorf with several %w has the same Unwrap, but its
// own text, so it is not split.
var joined = reflect.TypeOf(errors.Join(os.ErrInvalid))

// flatten returns the errors that err joins, or itself.
func flatten(err error) (all []error) {
	switch {
	case err == nil:
		return nil
	case reflect.TypeOf(err) != joined:
		return []error{err}
	}
	for _, e := range err.(interface{ Unwrap() []error }).Unwrap() {
		all = append(all, flatten(e)...)
	}
	return all
}

// isFinding reports whether an error that flatten returned is a finding: of several, one that is not is an error.
func isFinding(err error) bool { _, is := err.(*findingsError); return is }

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

// exitStatus is the exit status for an error, or for none: the first that applies. Where something was found, it does
// not matter that something else could not be examined.
func exitStatus(err error) int {
	if sig, is := errors.AsType[*signalError](err); is {
		return statusSignal + int(sig.signal)
	}
	if _, is := errors.AsType[*usageError](err); is {
		return statusUsage
	}
	if start, is := errors.AsType[*startError](err); is {
		return start.status()
	}
	switch all := flatten(err); {
	case len(all) == 0:
		return statusDone
	case errors.Is(err, screen.ErrBrokenPipe):
		return statusBrokenPipe
	case !slices.ContainsFunc(all, func(e error) bool { return !isFinding(e) }):
		if slices.ContainsFunc(all, func(e error) bool { return !e.(*findingsError).incomplete }) {
			return statusFindings
		}
		return statusIncomplete
	}
	return statusError
}
