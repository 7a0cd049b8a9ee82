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
)

// scanOptions are the choices of vfix scan.
type scanOptions struct {
	workOptions
	batchOptions
	strict bool
}

func newScanCommand(out *output, e engine) *cobra.Command {
	var opts scanOptions
	cmd := newVerb("scan [options] SOURCE... | --from-file LIST", opts.sources(-1), func(ctx context.Context, args []string) error {
		if root := opts.read.Root; root != "" {
			if fi, err := os.Stat(root); err != nil || !fi.IsDir() {
				return usagef("--root %s: not a directory", root)
			}
		}
		if opts.fromFile != "" {
			return runBatch(ctx, &opts.batchOptions, &opts.workOptions, images.RebuildOptions{}, opts.strict, e.scanAll, out, e)
		}
		return scanEach(ctx, &opts, args, out, e)
	})
	exclusive(cmd, "from-file explain")
	opts.addList(cmd, "SOURCE or SOURCE DEST (DEST is ignored)")
	cmd.Flags().BoolVar(&opts.strict, "strict", false, "exit with status 3 also if SOURCE has hazards")
	cmd.Flags().StringVar(&opts.read.Root, "root", "", "find the libraries of a program in this `DIR` (default: the root filesystem that contains the program)")
	opts.add(cmd, out, withFix, withExplain, withImages, withJobs)
	return cmd
}

// scanned is what was found in a source, and how the source was typed.
type scanned struct {
	typed string
	*contents.Findings
}

func scanEach(ctx context.Context, opts *scanOptions, args []string, out *output, e engine) error {
	var all []scanned
	var errs []error
	doc := jsonFindings{}
	for _, source := range args {
		f, err := e.scan(ctx, source, opts.read)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		out.warnings(f, false)
		all = append(all, scanned{source, f})
		doc.Results = append(doc.Results, sourceJSON(f, f.Verdict()))
	}
	here := destinations(ctx, e, opts.read.Media)
	for _, f := range all {
		errs = append(errs, incomplete(f.Findings, f.typed))
		if n := len(f.Hazards); n > 0 && opts.strict {
			errs = append(errs, inText(finding(seeHazards, "%s: %s", f.typed, screen.Count(n, "hazard"))))
		}
		if f.Uncovered().Live > 0 {
			sites, _, _ := countSites(f.Findings)
			errs = append(errs, inText(finding("run "+quoted(here.fixes(f)[0]), "%s: AFFECTED: %s", f.typed, screen.Count(sites, "call site"))))
		}
	}
	if len(all) == 0 {
		return errors.Join(errs...)
	}
	return errors.Join(append(errs, out.show(false, doc, func(s screen.Stream) {
		for i, f := range all {
			if i > 0 {
				fmt.Fprintln(s)
			}
			writeScanned(s, f, opts.explain, here)
		}
	}))...)
}

// seeHazards is the hint for hazards.
const seeHazards = "see 'vfix help hazards'"

// writeScanned writes what was found in a source: its verdict, the files, and the commands that fix it.
func writeScanned(s screen.Stream, f scanned, explain bool, here destination) {
	writeVerdict(s, f.typed, f.Findings)
	if explain {
		writeExplained(s, f.Findings)
	}
	writeFiles(s, f.Findings)
	for _, h := range f.Hazards {
		s.Print("hazard: ", s.Paint.Yellow, fmt.Sprintf("%s: %s: %s; %s", cmp.Or(h.Path, f.typed), h.Title(), h.Means(), h.Do()))
	}
	open := f.Uncovered().Live > 0 && (isImage(f.Findings) || !explain)
	if len(f.ToPatch()) > 0 || len(f.Packed) > 0 || open {
		fmt.Fprintln(s)
		for i, command := range here.fixes(f) {
			if i > 0 {
				fmt.Fprintln(s, "or in place:")
			}
			s.Command(command)
		}
	}
}
