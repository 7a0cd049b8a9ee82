// The verb patch: its options, and what it prints.

package main

import (
	"context"
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"vfix.dev/vfix/cmd/vfix/screen"
	"vfix.dev/vfix/images/patch"
)

func newPatchCommand(out *output, e engine) *cobra.Command {
	var opts workOptions
	var to patch.Options
	cmd := newVerb("patch [options] (-i | -o DEST | --dry-run) PATH...", arguments("PATH", 1, -1), func(ctx context.Context, paths []string) error {
		if err := checkPatch(&to, paths); err != nil {
			return err
		}
		to.Jobs, to.Progress, to.Rewriter = opts.read.Jobs, opts.read.Media.Progress, opts.read.Rewriter
		found, err := e.patch(ctx, paths, to)
		if err != nil {
			return err
		}
		out.warnings(found, true)
		err = out.show(to.DryRun, jsonFindings{[]jsonSource{sourceJSON(found, found.Remaining())}}, func(s screen.Stream) {
			writePatched(s, strings.Join(paths, " "), to.DryRun, found)
			if opts.explain {
				writeExplained(s, found)
			}
			if to.Output != "" && !to.DryRun {
				s.Print("written: ", nil, to.Output)
			}
		})
		return errors.Join(err, remaining(found, paths...))
	})
	exclusive(cmd, "in-place output", "since dry-run")
	f := cmd.Flags()
	f.BoolVarP(&to.InPlace, "in-place", "i", false, "replace each affected file with its patched copy")
	f.StringVarP(&to.Output, "output", "o", "", "write the patched copy to `DEST` and do not change PATH")
	f.BoolVar(&to.DryRun, "dry-run", false, "show what would be done without writing anything")
	f.StringVar(&to.Since, "since", "", "with -i: examine only files that changed after `FILE`, then update its time; if it does not exist, examine all files")
	f.BoolVarP(&to.OneFS, "one-file-system", "x", false, "do not cross into other mounted filesystems")
	opts.add(cmd, out, withExplain, withJobs)
	return cmd
}

// checkPatch says what is wrong with the options.
func checkPatch(to *patch.Options, paths []string) error {
	switch {
	case to.Output != "" && len(paths) > 1:
		return usagef("-o DEST takes one PATH, and %d are given", len(paths))
	case !to.InPlace && to.Output == "" && !to.DryRun:
		return usagef("no destination: use -i to replace the files, -o DEST to write a copy, or --dry-run")
	case to.Output == "-":
		return usagef("-o -: cannot write the patched copy to stdout, which is used for the table")
	case to.Since != "" && !to.InPlace:
		return usagef("--since works only with -i")
	}
	return nil
}
