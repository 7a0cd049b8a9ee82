// How errors are printed, those that the command makes itself, and the exit status of each.

package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"syscall"

	"vfix.dev/vfix/cmd/vfix/screen"
	"vfix.dev/vfix/internal/hinterr"
)

// output prints the results of verbs, as text or JSON, and errors. Its rules are in package screen.
type output struct {
	*screen.Output
	verb string // whose result it prints
	json bool
}

func newOutput(stdout, stderr io.Writer) *output { return &output{Output: screen.New(stdout, stderr)} }

// fail prints an error and what to do about it. Findings are a report, not an error.
func (o *output) fail(err error) {
	own, _ := errors.AsType[*exit](err)
	if err == screen.ErrBrokenPipe || own != nil && own.inText && !o.json {
		return
	}
	label := "error:"
	if isFinding(err) {
		label = ""
	}
	if tried, is := errors.AsType[*hinterr.Tried](err); is {
		o.Say(label, o.Err.Paint.Red, tried.Head())
		for _, place := range tried.Places {
			o.Say("tried:", o.Err.Paint.Dim, place.Error())
		}
	} else {
		o.Say(label, o.Err.Paint.Red, err.Error())
	}
	o.Say("hint:", o.Err.Paint.Bold, screen.HintOf(err, issues))
}

// exit is an error with an exit status of its own.
type exit struct {
	status    int
	msg, hint string
	inText    bool // the verb's text on stdout has both, in its own words; its JSON does not
}

func (e *exit) Error() string { return e.msg }
func (e *exit) Hint() string  { return e.hint }

// usagef is an invalid command line. main adds a hint about the verb.
func usagef(format string, a ...any) error {
	return &exit{status: statusUsage, msg: fmt.Sprintf(format, a...)}
}

// finding says that the work is done and something remains to be looked at.
func finding(hint, format string, a ...any) *exit {
	return &exit{status: statusFindings, msg: fmt.Sprintf(format, a...), hint: hint}
}

// inText is a finding that the verb's text on stdout has already.
func inText(e *exit) *exit {
	e.inText = true
	return e
}

// incompletef is the finding that something could not be examined or judged.
func incompletef(hint, format string, a ...any) *exit {
	return &exit{status: statusIncomplete, msg: fmt.Sprintf(format, a...), hint: hint}
}

// stopped is the cause of a context that a signal cancelled.
func stopped(sig syscall.Signal) error {
	return &exit{status: statusSignal + int(sig), msg: fmt.Sprintf("stopped by a signal (%s)", sig), hint: "no partial result is left behind; you can run the command again"}
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

// statusOf is the exit status of one error, which joins no others.
func statusOf(err error) int {
	own, is := errors.AsType[*exit](err)
	switch {
	case is:
		return own.status
	case errors.Is(err, screen.ErrBrokenPipe):
		return statusBrokenPipe
	}
	return statusError
}

// isFinding reports whether the work is done in spite of an error.
func isFinding(err error) bool {
	status := statusOf(err)
	return status == statusFindings || status == statusIncomplete
}

// exitStatus is the exit status for an error, or for none. An error beside findings is an error; if something was found,
// it does not matter that something else could not be examined.
func exitStatus(err error) int {
	status := statusDone
	for _, e := range flatten(err) {
		if !isFinding(e) {
			return statusOf(e)
		}
		if status != statusFindings {
			status = statusOf(e)
		}
	}
	return status
}
