// vfix runtime check: whether a configuration is valid, and which one is in force.

package main

import (
	"errors"
	"io/fs"
	"strings"

	"github.com/spf13/cobra"

	"vfix.dev/vfix/host/policy"
	"vfix.dev/vfix/host/starts"
	"vfix.dev/vfix/internal/hinterr"
)

// checkVerb is a word behind vfix runtime that is not a command of a runtime.
const checkVerb = "check"

func newRuntimeCheckCommand(out *output) *cobra.Command {
	return &cobra.Command{
		Use:   "check [FILE]",
		Short: "Check a configuration of vfix-runtime",
		Long: `Read a configuration of vfix-runtime or of the plugin of 'vfix nri', and report
the first error with its line and column. The default FILE is
/etc/vfix/runtime.json. For this file, also report which configuration is in
force: after an error the last good one, and without one fail_closed.

Check a file before you replace the one in use. Nothing is changed.`,
		Example: `  vfix runtime check
  vfix runtime check new.json && mv new.json /etc/vfix/runtime.json`,
		Annotations: exits(`  0  valid   3  not valid, or another configuration is in force
  1  error: FILE does not exist   2  usage error`),
		Args: atMost(1, "FILE"),
		RunE: func(_ *cobra.Command, args []string) error { return checkPolicy(strings.Join(args, ""), out) },
	}
}

func checkPolicy(file string, out *output) error {
	if file != "" {
		_, _, err := policy.Read(file)
		if errors.Is(err, fs.ErrNotExist) {
			return hinterr.With(err, "name a file that exists")
		}
		return validity(file+": valid", err, out)
	}
	p := policy.Load("", false, "")
	what := "valid, and in force"
	if p.Source == starts.Defaults {
		what = "not there: the defaults are in force"
	}
	if p.FailClosed {
		what += ", with fail_closed"
	}
	err := p.Err
	if why := p.Why(); why != "" {
		err = hinterr.With(errors.New(why), "%s", hinterr.HintOf(p.Err))
	}
	return validity(p.Path+": "+what, err, out)
}

// validity prints what is valid, or returns what is not.
func validity(valid string, err error, out *output) error {
	if err != nil {
		return &findingsError{msg: err.Error(), hint: hinterr.HintOf(err)}
	}
	out.Result(valid)
	return nil
}
