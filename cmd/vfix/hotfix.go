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

func newHotfixCommand(out *output, e engine) *cobra.Command {
	var opts workOptions
	var start bool
	cmd := newVerb("hotfix [options] CONTAINER", arguments("CONTAINER", 1, 1), func(ctx context.Context, args []string) error {
		done, err := e.hotfix(ctx, args[0], hotfix.Options{ScanOptions: opts.read, Start: start})
		if err != nil {
			return err
		}
		out.warnings(done.Findings, true)
		doc := jsonHotfixed{done, sourceJSON(done.Findings, done.Findings.Remaining())}
		err = out.show(false, doc, func(screen.Stream) { out.hotfixed(&opts, args[0], done) })
		return errors.Join(err, remaining(done.Findings, args[0]))
	})
	cmd.Flags().BoolVar(&start, "start", false, "start the container afterwards")
	opts.add(cmd, out, withFix, withImages, withJobs)
	return cmd
}

// hotfixed prints a table of the files on stderr, and the container's name on stdout if it was changed.
func (o *output) hotfixed(opts *workOptions, source string, h *hotfix.Hotfixed) {
	o.patched(source, false, h.Findings)
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
		o.Note("started %s", h.Name)
	case len(h.Written) > 0:
		o.Note("to start it: %s start %s", h.Engine, h.Name)
	}
}

type jsonHotfixed struct {
	*hotfix.Hotfixed
	Result jsonSource `json:"result"`
}
