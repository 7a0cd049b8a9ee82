// The verb run: its options, and why a program could not be started.

package main

import (
	"cmp"
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
		o := run.Options{Way: run.Way(way), Warn: out.Warn}
		if explain {
			o.Explain = func(format string, a ...any) { out.Note("run: %s", fmt.Sprintf(format, a...)) }
		}
		if err := e.run(args, o); err != nil {
			return notStarted(err)
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

// notStarted is why a program could not be started, with the statuses of env(1).
func notStarted(err error) error {
	e := &exit{statusNotStarted, err.Error(), "try another method: --way trace works for most programs; see 'vfix run --help'", false}
	switch {
	case errors.Is(err, run.ErrNoCommand):
		e.status, e.hint = statusNoCommand, "check the spelling and PATH"
	case errors.Is(err, run.ErrNotExecutable):
		e.status, e.hint = statusNotExec, "check its mode with 'ls -l' and its type with 'file'"
	}
	e.hint = cmp.Or(hinterr.HintOf(err), e.hint)
	return e
}
