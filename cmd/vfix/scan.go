// The verb scan: its options, and what it prints.

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"vfix.dev/vfix/cmd/vfix/screen"
	"vfix.dev/vfix/images"
	"vfix.dev/vfix/images/contents"
	"vfix.dev/vfix/images/lists"
)

// ScanOptions are the choices of vfix scan.
type ScanOptions struct {
	workOptions
	batchOptions
	strict bool
	here   place
}

func newScanCommand(out *output, e engine) *cobra.Command {
	var opts ScanOptions
	cmd := &cobra.Command{
		Use: "scan [options] SOURCE... | --from-file LIST",
		Args: func(cmd *cobra.Command, args []string) error {
			if opts.fromFile != "" {
				return nil // the check of a list has a better word for it
			}
			return arguments("SOURCE", 1, -1)(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := cmp.Or(opts.batchOptions.check(cmd, args), notTogether(cmd, [2]string{"from-file", "explain"})); err != nil {
				return err
			}
			return runScan(cmd.Context(), opts, args, out, e)
		},
	}
	opts.batchOptions.add(cmd, "scan", "SOURCE or SOURCE DEST (DEST is ignored)")
	cmd.Flags().BoolVar(&opts.strict, "strict", false, "exit with status 3 also if SOURCE has hazards")
	cmd.Flags().StringVar(&opts.read.Root, "root", "", "find the libraries of a program in this `DIR` (default: the root filesystem that contains the program)")
	opts.addFix(cmd)
	opts.addExplain(cmd)
	opts.printOptions.add(cmd)
	opts.addMedia(cmd)
	opts.addJobs(cmd)
	return cmd
}

func runScan(ctx context.Context, opts ScanOptions, args []string, out *output, e engine) error {
	if err := opts.begin("scan", out); err != nil {
		return err
	}
	if opts.read.Root != "" {
		if fi, err := os.Stat(opts.read.Root); err != nil || !fi.IsDir() {
			return usagef("scan", "--root %s: not a directory", opts.read.Root)
		}
	}
	if opts.fromFile != "" {
		return scanAll(ctx, opts, out, e)
	}
	return scanEach(ctx, opts, args, out, e)
}

// scanned is what was found in a source, and how the source was typed.
type scanned struct {
	typed string
	*contents.Findings
}

func scanEach(ctx context.Context, opts ScanOptions, args []string, out *output, e engine) error {
	var all []scanned
	var errs []error
	for _, source := range args {
		f, err := e.scan(ctx, source, opts.read)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		all = append(all, scanned{source, f})
	}
	if len(all) > 0 {
		opts.here = placeFor(ctx, e, opts.read.Media, all)
		errs = append(errs, out.scanned(opts, all))
	}
	onStdout := !opts.json()
	for _, f := range all {
		errs = append(errs, incomplete(f.Findings))
		if n := len(f.Hazards); n > 0 && opts.strict {
			one := finding(seeHazards, "%s: %s", f.typed, screen.Count(n, "hazard"))
			one.printed = onStdout
			errs = append(errs, one)
		}
		if n := f.UncoveredSites(); n > 0 {
			one := finding("run "+quoted(opts.here.fixes(f)[0]), "%s: %s", f.typed, screen.Count(n, openSite))
			one.printed = onStdout
			errs = append(errs, one)
		}
	}
	return errors.Join(errs...)
}

// seeHazards is the hint for hazards.
const seeHazards = "see 'vfix help hazards'"

// scanned prints what a scan found: for each source its verdict, the files, and the commands that fix it.
func (o *output) scanned(opts ScanOptions, all []scanned) error {
	if opts.json() {
		var doc jsonFindings
		for _, f := range all {
			o.warnings(f.Findings)
			doc.Results = append(doc.Results, sourceJSON(f.Findings, f.Verdict()))
		}
		return o.document("scan", false, doc)
	}
	for i, f := range all {
		o.warnings(f.Findings)
		if i > 0 {
			fmt.Fprintln(o.Stdout)
		}
		writeVerdict(o.Stdout, o.Out, f.typed, f.Findings)
		if opts.explain {
			writeExplained(o.Stdout, o.Out, f.Findings)
		}
		writeFiles(o.Stdout, o.Out, f.Findings)
		for _, h := range f.Hazards {
			o.Out.Write(o.Stdout, o.Out.Paint.Yellow("hazard: "), len(screen.Gap), fmt.Sprintf("%s: %s: %s; %s", cmp.Or(h.Path, f.typed), h.Title(), h.Means(), h.Do()))
		}
		if f.Affected() || len(f.Packed) > 0 {
			fmt.Fprintln(o.Stdout)
			for _, command := range opts.here.fixes(f) {
				fmt.Fprintln(o.Stdout, screen.Gap+o.Out.Paint.Bold(screen.Printable(command)))
			}
		}
	}
	return nil
}

// scanAll scans a list of images.
func scanAll(ctx context.Context, opts ScanOptions, out *output, e engine) error {
	all, err := runBatch(ctx, opts.batchOptions, opts.printOptions,
		lists.Options{RebuildOptions: images.RebuildOptions{ScanOptions: opts.read, Version: buildVersion().Version}}, e.scanAll, out, e)
	if err == nil {
		err = failures(all)
	}
	if err != nil {
		return err
	}
	hazards := 0
	for _, i := range all {
		if len(i.Hazards) > 0 {
			hazards++
		}
	}
	errs := []error{unreadInList(all)}
	if hazards > 0 && opts.strict {
		errs = append(errs, finding(seeHazards, "hazards: %d of %s", hazards, screen.Count(len(all), "image")))
	}
	if n := lists.Count(all, lists.Affected); n > 0 {
		errs = append(errs, finding("run 'vfix rebuild --from-file' with the same list", "affected: %d of %s", n, screen.Count(len(all), "image")))
	}
	return errors.Join(errs...)
}
