// vfix runtime status: what vfix-runtime did at the last starts of containers.

package main

import (
	"io/fs"

	"github.com/spf13/cobra"

	"vfix.dev/vfix/host/ociruntime"
	"vfix.dev/vfix/host/policy"
	"vfix.dev/vfix/internal/hinterr"
)

// statusVerb is the one word behind vfix runtime that is no command of a runtime.
const statusVerb = "status"

// StatusOptions are the choices of vfix runtime status.
type StatusOptions struct {
	printOptions
	ociruntime.StatusOptions
}

// defaultLast is how many starts are shown.
const defaultLast = 10

func newStatusCommand(out *output, e engine) *cobra.Command {
	var opts StatusOptions
	cmd := &cobra.Command{
		Use:   "status [options]",
		Short: "Show what vfix-runtime did at the last starts of containers",
		Long: `Show the last starts, the newest last, and a summary of all that are recorded.

  RESULT   patched    every file that calls the page is patched
           clean      nothing had to be patched
           partial    started, but a file or a call site is left: see the reason
           unpatched  started as it is, because of an error
           refused    not started: fail-closed
           disabled   left alone, by an annotation or opt_in
  FILES    files that were patched        LEFT   call sites that stay
  MS       time that vfix-runtime took    CACHE  hit: nothing had to be examined

The records are JSON, one line a start, in /var/log/vfix/starts.jsonl, unless
"record" in /etc/vfix/runtime.json names another file, journald or none.`,
		Example: `  vfix runtime status --last 50
  vfix runtime status --format json | jq .summary`,
		Annotations: exits(`  0  success   1  error: nothing is recorded   2  usage error`),
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usagef(runtimeVerb+" "+statusVerb, "status takes no argument: %s", args[0])
			}
			return nil
		},
		RunE: func(*cobra.Command, []string) error { return runStatus(opts, out, e) },
	}
	f := cmd.Flags()
	f.IntVar(&opts.Last, "last", defaultLast, "show the last `N` starts")
	f.StringVar(&opts.Record, "record", "", "read this `FILE`, or journald (default: as in the configuration)")
	f.StringVar(&opts.ConfigFile, "vfix-config", policy.ConfigFile, "the configuration `FILE` of vfix-runtime")
	opts.addFormat(cmd)
	return cmd
}

func runStatus(opts StatusOptions, out *output, e engine) error {
	if err := opts.check(runtimeVerb + " " + statusVerb); err != nil {
		return err
	}
	if opts.Last < 0 {
		return usagef(runtimeVerb+" "+statusVerb, "--last %d: must not be negative", opts.Last)
	}
	status, err := e.status(opts.StatusOptions)
	if err != nil {
		return hinterr.Among(err, statusHints, `see "record" in `+policy.ConfigFile+", and 'vfix help nodes'")
	}
	return out.status(opts, status)
}

// statusHints say what to do where nothing can be shown.
var statusHints = []hinterr.For{
	{Err: fs.ErrNotExist, Hint: "vfix-runtime writes it when it first starts a container; name another file with --record"},
	{Err: fs.ErrPermission, Hint: "the records belong to root: run vfix as root"},
}
