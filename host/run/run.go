// The ways to start a program, the options of vfix run, and its errors.

// Package run starts a program on the machine that vfix runs on, so that it does not need
// the vsyscall page. It knows neither images nor the work of the fallback's programs.
package run

import "errors"

// Way is how a program is started.
type Way string

const (
	// Auto chooses one of the others.
	Auto Way = "auto"
	// Preload makes the loader load libvfix.so: for dynamic programs.
	Preload Way = "preload"
	// Trace runs the program under vfix-trace: for all others.
	Trace Way = "trace"
	// AsIs executes the file: nothing can be done for it.
	AsIs Way = "as it is"
)

// Ways are those that a user can ask for.
var Ways = []string{string(Auto), string(Preload), string(Trace)}

// Errors that callers branch on, to be found with errors.Is.
var (
	// ErrNoCommand: there is no such program.
	ErrNoCommand = errors.New("no such program")
	// ErrNotExecutable: it exists, but cannot be executed.
	ErrNotExecutable = errors.New("cannot be executed")
)

// Options are the choices of vfix run.
type Options struct {
	Way Way // "" is Auto
	// Explain gets the chosen way and the reason; Warn gets warnings. nil is silence.
	Explain, Warn func(format string, args ...any)
}
