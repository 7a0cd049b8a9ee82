// The verb rebuild: its options; the table and the rest on stderr, the reference on stdout.

package main

import (
	"context"
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"vfix.dev/vfix/cmd/vfix/screen"
	"vfix.dev/vfix/images"
	"vfix.dev/vfix/images/contents"
	"vfix.dev/vfix/images/fallback"
	"vfix.dev/vfix/images/lists"
	"vfix.dev/vfix/images/source"
	"vfix.dev/vfix/internal/addedfiles"
)

// rebuildOptions are the choices of vfix rebuild.
type rebuildOptions struct {
	workOptions
	batchOptions
	to images.RebuildOptions
}

func newRebuildCommand(out *output, e engine) *cobra.Command {
	var opts rebuildOptions
	cmd := newVerb("rebuild [options] SOURCE | --from-file LIST", opts.sources(1), func(ctx context.Context, args []string) error {
		if err := opts.check(); err != nil {
			return err
		}
		if opts.fromFile != "" {
			return runBatch(ctx, &opts.batchOptions, &opts.workOptions, opts.to, false, e.rebuildAll, out, e)
		}
		return rebuildOne(ctx, &opts, args[0], out, e)
	})
	exclusive(cmd, "push dry-run", "push output", "tag tag-suffix", "output tag-suffix", "from-file output", "from-file tag", "from-file provenance", "dest-template tag-suffix")
	f := cmd.Flags()
	f.StringVarP(&opts.to.Tag, "tag", "t", "", "name the result `REF`: NAME:TAG, or a TAG of the name of SOURCE")
	f.StringVarP(&opts.to.Dest, "output", "o", "", "write the result to `DEST` (default: the local engine)")
	f.StringVar(&opts.to.Suffix, "tag-suffix", "-vfix", "name the result NAME:TAG plus this `SUFFIX`")
	f.BoolVar(&opts.to.Push, "push", false, "push the result to the registry of its name")
	f.BoolVar(&opts.to.DryRun, "dry-run", false, "show what would be done without writing anything")
	f.StringVar((*string)(&opts.to.Fallback), "fallback", string(fallback.FallbackAuto),
		"`WHEN` to add the run-time fallback: auto (if some call sites cannot be patched), always (also for code that is added later: volumes, downloads, JITs), or never")
	choices(cmd, "fallback", []string{string(fallback.FallbackAuto), string(fallback.FallbackAlways), string(fallback.FallbackNever)})
	f.StringVar(&opts.to.Provenance, "provenance", "", "write a statement of what was done to each file to this `FILE`; see 'vfix help security'")
	opts.addList(cmd, "SOURCE or SOURCE DEST")
	f.StringVar(&opts.template, "dest-template", "",
		"with --from-file: write each image to the DEST that this `TEMPLATE` gives, with {registry}, {repository}, {name} and {tag} filled in")
	opts.add(cmd, out, withFix, withImages, withJobs)
	return cmd
}

// check says what is wrong with the destination.
func (o *rebuildOptions) check() error {
	if o.template != "" {
		if err := lists.CheckTemplate(o.template); err != nil {
			return usagef("--dest-template: %v", err)
		}
	}
	if o.to.Dest == "" {
		return nil
	}
	dest, err := source.ParseRef(o.to.Dest)
	switch {
	case o.to.Dest == "-":
		return usagef("-o -: cannot write the image to stdout, which is used for its reference")
	case err != nil:
		return usagef("-o: %v", err)
	case o.to.Tag != "" && (dest.Tag != "" || dest.Guessed || dest.Transport == source.Daemon || dest.Transport == source.Registry):
		return usagef("-o %s already names the result, and -t gives it another name: use one of them", o.to.Dest)
	}
	return nil
}

func rebuildOne(ctx context.Context, opts *rebuildOptions, source string, out *output, e engine) error {
	o := opts.to
	o.ScanOptions, o.Version = opts.read, buildVersion().Version
	done, err := e.rebuild(ctx, source, o)
	if err != nil {
		return err
	}
	f := done.Findings
	out.warnings(f, true)
	out.patched(source, o.DryRun, f)
	out.fallback(&f.Fallback, o.DryRun)
	for _, text := range done.Warnings {
		out.Warn("%s", text)
	}
	for _, text := range done.Notes {
		out.Note("%s", text)
	}
	if done.Provenance != "" {
		out.Note("statement of provenance: %s", done.Provenance)
	}
	switch {
	case done.Unchanged:
		out.Note("%s: %s", source, nothingToPatch(f, o.Rewriter.Fixes))
	case o.DryRun:
		out.Note("dry run: nothing was written")
	case done.Digest == "": // a root filesystem
		out.Note("wrote %s: %s with the changed files", done.Reference, source)
	default:
		out.Note("wrote %s: %s plus one layer of %s", done.Reference, source, screen.Size(done.LayerSize))
	}
	doc := jsonRebuilt{done, jsonFallback{string(o.Fallback), f.Fallback}, sourceJSON(f, f.Remaining())}
	err = out.show(o.DryRun, doc, func(screen.Stream) { out.Result(done.Reference) })
	return errors.Join(err, remaining(f, source))
}

// fallback says what of the fallback a rebuild adds, and why the entrypoint is wrapped.
func (o *output) fallback(f *contents.Fallback, dry bool) {
	would := "is "
	if dry {
		would = "would be "
	}
	if len(f.Added) > 0 {
		o.Note("the fallback %sadded: %s", would, strings.Join(f.Added, ", "))
	}
	if !f.Wrapped {
		return
	}
	o.Note("the entrypoint %srun under %s; programs started by 'docker exec' or a health check are not", would, addedfiles.TracePath)
	for _, why := range f.Reasons {
		o.Note("a preload does not reach %s", why)
	}
}

type jsonRebuilt struct {
	*images.Rebuilt
	Fallback jsonFallback `json:"fallback"`
	Result   jsonSource   `json:"result"`
}

type jsonFallback struct {
	Mode string `json:"mode"`
	contents.Fallback
}
