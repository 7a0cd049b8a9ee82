// The verb rebuild: its options.

package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"vfix.dev/vfix/cmd/vfix/screen"
	"vfix.dev/vfix/images"
	"vfix.dev/vfix/images/fallback"
	"vfix.dev/vfix/images/lists"
	"vfix.dev/vfix/images/source"
)

// RebuildOptions are the choices of vfix rebuild.
type RebuildOptions struct {
	workOptions
	batchOptions
	to images.RebuildOptions
}

var fallbackModes = []string{string(fallback.FallbackAuto), string(fallback.FallbackAlways), string(fallback.FallbackNever)}

func newRebuildCommand(out *output, e engine) *cobra.Command {
	var opts RebuildOptions
	cmd := &cobra.Command{
		Use: "rebuild [options] SOURCE | --from-file LIST",
		Args: func(cmd *cobra.Command, args []string) error {
			if opts.fromFile != "" {
				return nil // the check of a list has a better word for it
			}
			return arguments("SOURCE", 1, 1)(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := opts.check(cmd, args); err != nil {
				return err
			}
			return runRebuild(cmd.Context(), opts, append(args, "")[0], out, e)
		},
	}
	f := cmd.Flags()
	f.StringVarP(&opts.to.Tag, "tag", "t", "", "name the result `REF`: NAME:TAG, or a TAG of the name of SOURCE")
	f.StringVarP(&opts.to.Dest, "output", "o", "", "write the result to `DEST` (default: the local engine)")
	f.StringVar(&opts.to.Suffix, "tag-suffix", "-vfix", "name the result NAME:TAG plus this `SUFFIX`")
	f.BoolVar(&opts.to.Push, "push", false, "push the result to the registry of its name")
	f.BoolVar(&opts.to.DryRun, "dry-run", false, "show what would be done without writing anything")
	f.StringVar((*string)(&opts.to.Fallback), "fallback", string(fallback.FallbackAuto),
		"`WHEN` to add the run-time fallback: auto (if some call sites cannot be patched), always (also for code that is added later: volumes, downloads, JITs), or never")
	choices(cmd, "fallback", fallbackModes)
	opts.addFix(cmd)
	f.StringVar(&opts.to.Provenance, "provenance", "", "write a statement of what was done to each file to this `FILE`; see 'vfix help security'")
	opts.batchOptions.add(cmd, "rebuild", "SOURCE or SOURCE DEST")
	f.StringVar(&opts.template, "dest-template", "",
		"with --from-file: write each image to the DEST that this `TEMPLATE` gives, with {registry}, {repository}, {name} and {tag} filled in")
	opts.printOptions.add(cmd)
	opts.addMedia(cmd)
	opts.addJobs(cmd)
	return cmd
}

func runRebuild(ctx context.Context, opts RebuildOptions, source string, out *output, e engine) error {
	if err := opts.begin("rebuild", out); err != nil {
		return err
	}
	o := opts.to
	o.ScanOptions, o.Version = opts.read, buildVersion().Version
	if opts.fromFile != "" {
		done, err := runBatch(ctx, opts.batchOptions, opts.printOptions, lists.Options{RebuildOptions: o}, e.rebuildAll, out, e)
		if err != nil {
			return err
		}
		return rebuiltAll(done)
	}
	done, err := e.rebuild(ctx, source, o)
	if err != nil {
		return err
	}
	if err := out.rebuilt(opts, source, done); err != nil {
		return err
	}
	return errors.Join(incomplete(done.Findings), leftOver(source, done.Findings))
}

// check says what is wrong with a set of options.
func (o *RebuildOptions) check(cmd *cobra.Command, args []string) error {
	if err := o.batchOptions.check(cmd, args); err != nil {
		return err
	}
	if err := notTogether(cmd, [2]string{"push", "dry-run"}, [2]string{"push", "output"}, [2]string{"tag", "tag-suffix"}, [2]string{"output", "tag-suffix"},
		[2]string{"from-file", "output"}, [2]string{"from-file", "tag"}, [2]string{"from-file", "provenance"}, [2]string{"dest-template", "tag-suffix"}); err != nil {
		return err
	}
	if o.template != "" {
		if err := lists.CheckTemplate(o.template); err != nil {
			return usagef("rebuild", "--dest-template: %v", err)
		}
	}
	if o.to.Dest == "" {
		return nil
	}
	dest, err := source.ParseRef(o.to.Dest)
	switch {
	case o.to.Dest == "-":
		return usagef("rebuild", "-o -: cannot write the image to stdout, which is used for its reference")
	case err != nil:
		return usagef("rebuild", "-o: %v", err)
	case o.to.Tag != "" && (dest.Tag != "" || dest.Guessed || dest.Transport == source.Daemon || dest.Transport == source.Registry):
		return usagef("rebuild", "-o %s already names the result, and -t gives it another name: use one of them", o.to.Dest)
	}
	return nil
}

// rebuiltAll is the exit status of a list: failures are an error, open sites and files that could not be
// examined are findings.
func rebuiltAll(all []lists.Image) error {
	if err := failures(all); err != nil {
		return err
	}
	images, sites := 0, 0
	for _, i := range all {
		if sites += i.LeftOver; i.LeftOver > 0 {
			images++
		}
	}
	errs := []error{unreadInList(all)}
	if sites > 0 {
		errs = append(errs, finding(seeReasons, "%s: %s could not be patched", screen.Count(images, "image"), screen.Count(sites, openSite)))
	}
	return errors.Join(errs...)
}
