// The verb hotfix: its options and its output.

package main

import (
	"context"
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"vfix.dev/vfix/cmd/vfix/screen"
	"vfix.dev/vfix/host/hotfix"
)

// HotfixOptions are the choices of vfix hotfix.
type HotfixOptions struct {
	workOptions
	start bool
}

func newHotfixCommand(out *output, e engine) *cobra.Command {
	var opts HotfixOptions
	cmd := &cobra.Command{
		Use:  "hotfix [options] CONTAINER",
		Args: arguments("CONTAINER", 1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := opts.begin("hotfix", out); err != nil {
				return err
			}
			return runHotfix(cmd.Context(), opts, args[0], out, e)
		},
	}
	cmd.Flags().BoolVar(&opts.start, "start", false, "start the container afterwards")
	opts.addFix(cmd)
	opts.printOptions.add(cmd)
	opts.addMedia(cmd)
	opts.addJobs(cmd)
	return cmd
}

func runHotfix(ctx context.Context, opts HotfixOptions, source string, out *output, e engine) error {
	done, err := e.hotfix(ctx, source, hotfix.Options{ScanOptions: opts.read, Start: opts.start})
	if err != nil {
		return err
	}
	if err := out.hotfixed(opts, source, done); err != nil {
		return err
	}
	return errors.Join(incomplete(done.Findings), leftOver(source, done.Findings))
}

// hotfixed prints a table of the files on stderr, and the container's name on stdout if it was changed.
func (o *output) hotfixed(opts HotfixOptions, source string, h *hotfix.Hotfixed) error {
	o.warnings(h.Findings)
	if opts.json() {
		return o.document("hotfix", false, jsonHotfixed{h, sourceJSON(h.Findings, h.Findings.Remaining())})
	}
	if !o.Quiet && (h.Findings.Affected() || len(h.Findings.Passed) > 0 || h.Findings.OpenSites() > 0) {
		writePatched(o.Stderr, o.Err, source, false, h.Findings)
	}
	if len(h.Covered) > 0 {
		o.Note("not examined, because they are mounted into the container: %s", strings.Join(h.Covered, ", "))
	}
	if len(h.Written) == 0 {
		o.Note("%s: %s", source, nothingToPatch(h.Findings, opts.read.Rewriter.Fixes))
	} else {
		o.Note("wrote %s to the container's own layer", screen.Count(len(h.Written), "file"))
		o.Result(h.Name)
	}
	switch {
	case h.Started:
		o.Note("started")
	case len(h.Written) > 0:
		o.Note("to start it: %s start %s", h.Engine, h.Name)
	}
	return nil
}

type jsonHotfixed struct {
	*hotfix.Hotfixed
	Result jsonSource `json:"result"`
}
