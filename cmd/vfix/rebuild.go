// The verb rebuild: its options.

package main

import (
	"context"

	"github.com/spf13/cobra"

	"vfix.dev/vfix/images"
	"vfix.dev/vfix/images/fallback"
	"vfix.dev/vfix/images/media"
)

// RebuildOptions are the choices of vfix rebuild.
type RebuildOptions struct {
	printOptions
	workOptions
	batchOptions
	dest       string
	tag        string
	suffix     string
	suffixSet  bool // --tag-suffix was given
	push       bool
	dryRun     bool
	fallback   string
	provenance string
	updateDpkg bool
}

// provenanceModes are the words of --provenance; anything else is a file.
var provenanceModes = []string{images.ProvenanceAuto, images.ProvenanceNone}

// fallbackModes are the words of --fallback.
var fallbackModes = []string{string(fallback.FallbackAuto), string(fallback.FallbackAlways), string(fallback.FallbackNever)}

func newRebuildCommand(out *output, e engine) *cobra.Command {
	var opts RebuildOptions
	cmd := &cobra.Command{
		Use:   "rebuild [options] SOURCE | --from-file LIST",
		Short: "Build the derived image: the base and a layer of patched files",
		Long: `Builds the derived image of SOURCE: the same image plus one layer with the
patched files, their owner, mode, time, extended attributes and hard links kept.
Environment, entrypoint and other platforms stay as they are. SOURCE itself is
never changed. The same input gives the same digest.

The result goes to the local daemon as NAME:TAG-vfix. -t names it otherwise, -o
sends it elsewhere, --push sends it to its registry.

On stdout stands one line, the reference of the result, in a registry with its
digest; so 'docker run $(vfix rebuild IMAGE)' works. Where there is nothing to
do, and with --dry-run, stdout names SOURCE and works as well. The table of what
was patched is on stderr.

Where call sites had to be left, the fallback goes into the layer too:
libvfix.so by way of /etc/ld.so.preload and, where a preload does not
reach, vfix-trace before the entrypoint. 'vfix help fallback' tells of it.

With --from-file many images are rebuilt in one run: layers that they share are
read once and sent once, one that fails does not stop the others, and stdout has
a table of what became of each. 'vfix help lists' tells of it.

SOURCE and DEST are written as in 'vfix help sources'.`,
		Example: `  docker run $(vfix rebuild redis:2.8.22)       the repaired image, at once
  vfix rebuild redis:2.8.22 -t redis:fixed      under another name
  vfix rebuild docker://old/app:1 --push        from registry to registry
  vfix rebuild old.tar -o oci:fixed             no daemon, no registry
  vfix rebuild app:1 --fallback always          for code that comes later, too
  vfix rebuild app:1 --provenance app.json      keep the proof of what was done
  vfix rebuild redis:2.8.22 --dry-run           what would be patched
  vfix rebuild --from-file list --push          many images: 'vfix help lists'`,
		Annotations: exits(`  0  done, or nothing to do: the reference is on stdout
  3  done, and live or unknown call sites remain that the fallback does not
     cover (--fallback never): the reference is on stdout
  1  an error: nothing is under the final name, stdout is empty; of a list,
     one image or more failed: the table on stdout says which
  2  usage`),
		Args: func(cmd *cobra.Command, args []string) error {
			if opts.fromFile != "" {
				return nil // checkBatch has a better word for it
			}
			return sourceArgs("rebuild", "SOURCE", 1)(cmd, args)
		},
		ValidArgsFunction: completeNames(e, noContainers),
		RunE: func(cmd *cobra.Command, args []string) error {
			opts.suffixSet = cmd.Flags().Changed("tag-suffix")
			if err := opts.checkBatch(cmd, args); err != nil {
				return err
			}
			return runRebuild(cmd.Context(), opts, append(args, "")[0], out, e)
		},
	}
	f := cmd.Flags()
	f.StringVarP(&opts.tag, "tag", "t", "", "name the result `REF`")
	f.StringVarP(&opts.dest, "output", "o", "", "write the result to `DEST` (default: the local daemon)")
	f.StringVar(&opts.suffix, "tag-suffix", "-vfix", "name the result NAME:TAG and this `SUFFIX`")
	f.BoolVar(&opts.push, "push", false, "push the result to the registry of its name")
	f.BoolVar(&opts.dryRun, "dry-run", false, "show what would be done, write nothing")
	f.StringVar(&opts.fallback, "fallback", string(fallback.FallbackAuto),
		"add what catches call sites at run time, `WHEN`: auto (where some had to be left), always (also for code that comes later: volumes, downloads, JITs), or never")
	words(cmd, "fallback", fallbackModes)
	f.BoolVar(&opts.updateDpkg, "update-dpkg", false,
		"correct dpkg's md5sums of the patched files, in the same layer")
	f.StringVar(&opts.provenance, "provenance", images.ProvenanceAuto,
		"state what was done to each file, `WHERE`: auto (attached to what is pushed, beside an archive or layout), none, or a FILE; see docs/provenance.md")
	words(cmd, "provenance", provenanceModes)
	opts.batchOptions.add(cmd)
	opts.printOptions.add(cmd)
	opts.addMedia(cmd)
	opts.addJobs(cmd)
	return cmd
}

// check says what is wrong with a set of options, one sentence for each.
func (o *RebuildOptions) check() error {
	switch {
	case o.push && o.dryRun:
		return usagef("rebuild", "--push writes to a registry and --dry-run writes nothing: give one of them")
	case o.tag != "" && o.suffixSet:
		return usagef("rebuild", "-t gives the whole name and --tag-suffix the end of one: give one of them")
	case o.dest == "-":
		return usagef("rebuild", "-o -: the image cannot go to stdout, which carries its reference")
	case o.suffixSet && o.suffix == "":
		return usagef("rebuild", "--tag-suffix is empty: the result would take the place of its base")
	case o.suffixSet && o.dest != "":
		return usagef("rebuild", "-o says where the result goes and --tag-suffix ends a name that vfix makes up: give one of them")
	case o.provenance == "":
		return usagef("rebuild", "--provenance is empty: want auto, none, or the name of a file")
	case o.dest == "":
		return nil
	}
	dest, err := parseDest("rebuild", o.dest)
	switch named := dest.Tag != "" || dest.Transport == media.Daemon || dest.Transport == media.Registry || dest.Guessed; {
	case err != nil:
		return err
	case o.tag != "" && named:
		return usagef("rebuild", "-o %s names the result already and -t gives it another name: give one of them", o.dest)
	case o.push && dest.Transport == media.Registry:
		return usagef("rebuild", "-o %s pushes already: leave --push away", o.dest)
	}
	return nil
}

func runRebuild(ctx context.Context, opts RebuildOptions, source string, out *output, e engine) error {
	if err := opts.check(); err != nil {
		return err
	}
	platform, err := opts.workOptions.check("rebuild")
	if err != nil {
		return err
	}
	if err := opts.printOptions.check("rebuild"); err != nil {
		return err
	}
	if err := oneOf("rebuild", "--fallback", opts.fallback, fallbackModes); err != nil {
		return err
	}
	o := images.RebuildOptions{
		ScanOptions: images.ScanOptions{Media: opts.media(platform, out.startProgress(ctx, opts.progress)), Jobs: opts.jobs, Shim: fallbackShim()},
		Dest:        opts.dest, Tag: opts.tag, Suffix: opts.suffix,
		Push: opts.push, DryRun: opts.dryRun, Version: buildVersion().Version,
		Fallback: fallback.Mode(opts.fallback), Provenance: opts.provenance, UpdateDpkg: opts.updateDpkg,
	}
	if opts.fromFile != "" {
		return runBatch(ctx, opts, o, out, e)
	}
	done, err := e.rebuild(ctx, source, o)
	if err != nil {
		return err
	}
	out.endProgress()
	if err := out.rebuilt(opts, done); err != nil {
		return err
	}
	return leftOver(done.Findings)
}
