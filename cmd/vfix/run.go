// The verb run: its options, and why a program could not be started.

package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"vfix.dev/vfix/host/run"
	"vfix.dev/vfix/internal/hinterr"
)

func newRunCommand(out *output, e engine) *cobra.Command {
	var way string
	var explain bool
	cmd := newVerb("run [options] CMD [ARG...]", nil, func(_ context.Context, args []string) error {
		if len(args) == 0 {
			return usagef("no CMD given")
		}
		shim := fallbackShim()
		o := run.Options{Way: run.Way(way), Warn: out.Warn, Library: shim.Library, Library32: shim.Library32, Trace: shim.Trace}
		if explain {
			o.Explain = func(format string, a ...any) { out.Note("run: %s", fmt.Sprintf(format, a...)) }
		}
		if err := e.run(args, o); err != nil {
			return &startError{hinterr.Among(err, startHints, "try another method: --way trace works for most programs; see 'vfix run --help'")}
		}
		return nil
	})
	f := cmd.Flags()
	f.SetInterspersed(false) // the arguments after CMD belong to CMD
	f.BoolVar(&explain, "explain", false, "report on stderr which method is used and why")
	f.StringVar(&way, "way", string(run.Auto), "start it with this `METHOD`: auto, preload, or trace")
	choices(cmd, "way", run.Ways)
	return cmd
}

// startError is why vfix run could not start a program.
type startError struct{ error }

func (e *startError) Unwrap() error { return e.error }

var startHints = []hinterr.For{
	{Err: run.ErrNoCommand, Hint: "check the spelling and PATH"},
	{Err: run.ErrNotExecutable, Hint: "check its mode with 'ls -l' and its type with 'file'"},
	{Err: run.ErrUnsupported, Hint: "run it on the machine or in the container that the program is for"},
}

func (e *startError) status() int {
	switch {
	case errors.Is(e.error, run.ErrNoCommand):
		return statusNoCommand
	case errors.Is(e.error, run.ErrNotExecutable):
		return statusNotExec
	}
	return statusNotStarted
}
