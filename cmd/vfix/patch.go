// The verb patch: its options.

package main

import (
	"cmp"
	"context"
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"vfix.dev/vfix/images/patch"
)

// PatchOptions are the choices of vfix patch.
type PatchOptions struct {
	workOptions
	to patch.Options
}

func newPatchCommand(out *output, e engine) *cobra.Command {
	var opts PatchOptions
	cmd := &cobra.Command{
		Use:  "patch [options] (-i | -o DEST | --dry-run) PATH...",
		Args: arguments("PATH", 1, -1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := cmp.Or(notTogether(cmd, [2]string{"in-place", "output"}, [2]string{"since", "dry-run"}), opts.check(args)); err != nil {
				return err
			}
			return runPatch(cmd.Context(), opts, args, out, e)
		},
	}
	f := cmd.Flags()
	f.BoolVarP(&opts.to.InPlace, "in-place", "i", false, "replace each affected file with its patched copy")
	f.StringVarP(&opts.to.Output, "output", "o", "", "write the patched copy to `DEST` and do not change PATH")
	f.BoolVar(&opts.to.DryRun, "dry-run", false, "show what would be done without writing anything")
	f.StringVar(&opts.to.Since, "since", "", "with -i: examine only files that changed after `FILE`, then update its time; if it does not exist, examine all files")
	f.BoolVarP(&opts.to.OneFS, "one-file-system", "x", false, "do not cross into other mounted filesystems")
	opts.addExplain(cmd)
	opts.printOptions.add(cmd)
	opts.addJobs(cmd)
	return cmd
}

// check says what is wrong with the options.
func (o *PatchOptions) check(paths []string) error {
	switch {
	case o.to.Output != "" && len(paths) > 1:
		return usagef("patch", "-o DEST takes one PATH, and %d are given", len(paths))
	case !o.to.InPlace && o.to.Output == "" && !o.to.DryRun:
		return usagef("patch", "no destination: use -i to replace the files, -o DEST to write a copy, or --dry-run")
	case o.to.Output == "-":
		return usagef("patch", "-o -: cannot write the patched copy to stdout, which is used for the table")
	case o.to.Since != "" && !o.to.InPlace:
		return usagef("patch", "--since works only with -i")
	}
	return nil
}

func runPatch(ctx context.Context, opts PatchOptions, paths []string, out *output, e engine) error {
	if err := opts.begin("patch", out); err != nil {
		return err
	}
	o := opts.to
	o.Jobs, o.Progress, o.Rewriter = opts.read.Jobs, opts.read.Media.Progress, opts.read.Rewriter
	found, err := e.patch(ctx, paths, o)
	if err != nil {
		return err
	}
	out.warnings(found)
	out.consequences(found)
	typed := strings.Join(paths, " ")
	if opts.json() {
		err = out.document("patch", o.DryRun, jsonFindings{[]jsonSource{sourceJSON(found, found.Remaining())}})
	} else {
		writePatched(out.Stdout, out.Out, typed, o.DryRun, found)
		if opts.explain {
			writeExplained(out.Stdout, out.Out, found)
		}
	}
	return errors.Join(err, incomplete(found), leftOver(typed, found))
}
