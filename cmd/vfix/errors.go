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

// usageError is an invalid command line: status 2.
type usageError struct {
	verb string // "" for vfix itself
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

// areFindings reports whether every error that err joins is a finding: an error beside findings is an error.
func areFindings(err error) bool {
	return err != nil && !slices.ContainsFunc(flatten(err), func(e error) bool {
		_, is := errors.AsType[*findingsError](e)
		return !is
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
	if err == nil {
		return statusDone
	}
	if sig, is := errors.AsType[*signalError](err); is {
		return statusSignal + int(sig.signal)
	}
	if _, is := errors.AsType[*usageError](err); is {
		return statusUsage
	}
	if start, is := errors.AsType[*startError](err); is {
		return start.status()
	}
	switch {
	case errors.Is(err, screen.ErrBrokenPipe):
		return statusBrokenPipe
	case !areFindings(err):
		return statusError
	case slices.ContainsFunc(flatten(err), func(e error) bool { f, _ := errors.AsType[*findingsError](e); return f.incomplete }):
		return statusIncomplete
	}
	return statusFindings
}
