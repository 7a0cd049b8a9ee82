// The verb patch: its options.

package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"vfix.dev/vfix/images"
	"vfix.dev/vfix/rewriter"
)

// PatchOptions are the choices of vfix patch.
type PatchOptions struct {
	printOptions
	workOptions
	inPlace bool
	output  string
	dryRun  bool
	since   string
	oneFS   bool
}

func newPatchCommand(out *output, e engine) *cobra.Command {
	var opts PatchOptions
	cmd := &cobra.Command{
		Use:   "patch [options] (-i | -o DEST | --dry-run) PATH...",
		Short: "Patch ELF files, folders and tarballs",
		Long: `Patches ELF files, folders with all that is in them, and tarballs, so that no
call site in them reaches the vsyscall page any more.

With -i each affected file is replaced by its patched copy in one step (rename):
programs that run keep the file they have; owner, mode, times and extended
attributes stay. A hard link is broken rather than written through, so that a
package cache that shares the file keeps the original. Files without call sites
are not touched. It may be run on / of a living system, again after each package
upgrade; with --since it then looks only at what has changed. With -o nothing in
PATH changes and the patched copy goes to DEST.

There is no undo: keep a copy, or use -o.`,
		Example: `  vfix patch --dry-run ./libc.so.6            what would change
  vfix patch --explain -o fixed ./libc.so.6   a patched copy, with the proof
  vfix patch -i ~/miniconda3/envs/old         a folder, in place
  vfix patch -i /                             the running system (as root)
  vfix patch -i -x --since /var/lib/vfix /    what is new in it since last time
  vfix patch -o fixed.tar rootfs.tar          a tarball`,
		Annotations: exits(`  0  done; no live and no unknown call site remains
  3  done, and some remain (with --dry-run: would remain)
  1  an error; files already replaced stay replaced, none is half-written
  2  usage`),
		Args: sourceArgs("patch", "PATH", -1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return runPatch(cmd.Context(), opts, args, out, e)
		},
	}
	f := cmd.Flags()
	f.BoolVarP(&opts.inPlace, "in-place", "i", false, "replace each affected file by its patched copy")
	f.StringVarP(&opts.output, "output", "o", "", "write the patched copy to `DEST`, leave PATH alone")
	f.BoolVar(&opts.dryRun, "dry-run", false, "show what would be done, write nothing")
	f.StringVar(&opts.since, "since", "", "with -i: look only at files that changed after `FILE` did, and touch FILE when done; where it is missing, at all of them")
	f.BoolVarP(&opts.oneFS, "one-file-system", "x", false, "leave out what is mounted in a folder")
	opts.addExplain(cmd)
	opts.printOptions.add(cmd)
	opts.addJobs(cmd)
	return cmd
}

// check says what is wrong with a set of options, one sentence for each.
func (o *PatchOptions) check() error {
	switch {
	case o.inPlace && o.output != "":
		return usagef("patch", "-i replaces the files and -o leaves them alone: give one of them")
	case !o.inPlace && o.output == "" && !o.dryRun:
		return usagef("patch", "where should the result go: give -i to replace the files, -o DEST for a copy, or --dry-run")
	case o.output == "-":
		return usagef("patch", "-o -: the patched copy cannot go to stdout, which carries the table")
	}
	if o.since != "" && (!o.inPlace || o.dryRun) {
		return usagef("patch", "--since remembers what -i has seen: give it with -i, and without --dry-run")
	}
	if _, err := o.workOptions.check("patch"); err != nil {
		return err
	}
	return o.printOptions.check("patch")
}

func runPatch(ctx context.Context, opts PatchOptions, paths []string, out *output, e engine) error {
	if err := opts.check(); err != nil {
		return err
	}
	found, err := e.patch(ctx, paths, images.PatchOptions{
		Jobs: opts.jobs, InPlace: opts.inPlace, Output: opts.output, DryRun: opts.dryRun, Since: opts.since, OneFS: opts.oneFS,
		Progress: out.startProgress(ctx, opts.progress), Rewriter: rewriter.Options{Explain: opts.explain},
	})
	if err != nil {
		return err
	}
	out.endProgress()
	deed := patched
	if opts.dryRun {
		deed = planned
	}
	if err := out.findings(deed, opts.printOptions, found); err != nil {
		return err
	}
	return errors.Join(incomplete(found), leftOver(found))
}
