// The verb verify: its options, and what its proof may lack.

package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"vfix.dev/vfix/images"
	"vfix.dev/vfix/rewriter"
)

// VerifyOptions are the choices of vfix verify.
type VerifyOptions struct {
	printOptions
	workOptions
	against    string
	provenance bool
	statement  string
}

func newVerifyCommand(out *output, e engine) *cobra.Command {
	var opts VerifyOptions
	cmd := &cobra.Command{
		Use:   "verify [options] SOURCE",
		Short: "Prove that no call site is left, and that nothing else changed",
		Long: `Looks through SOURCE again and proves that no live call site of the vsyscall
page is left in it, or that the fallback in it covers what is left. With
--against it also compares every file with the base, and the image config, the
manifest, the index and each tar header of the added layer with what a rebuild
of the base writes. It proves that patched call sites, what they need, and this
version's fallback are all that differs, and lists what it cannot compare, as
where a docker daemon has no manifest. It changes nothing.

--explain shows each place that differs, on both sides: the disassembly around
call sites, and the bytes of what changes in headers.

With --provenance it prints the statement of provenance that a rebuild attached
to the image or wrote beside it, and checks it: every file before and after,
every byte that is said to differ, and that no other does. That needs the image
alone, as the layers of its base are in it. The table goes to stderr then.

SOURCE and BASE are written as in 'vfix help sources'.`,
		Example: `  vfix verify redis:2.8.22-vfix
  vfix verify redis:2.8.22-vfix --against redis:2.8.22
  vfix verify ./fixed/libc.so.6 --against ./libc.so.6
  vfix verify docker://old/app:1-vfix --provenance | jq .predicate.files`,
		Annotations: exits(`  0  proved
  3  live or unknown call sites are left, or something else differs from BASE,
     or the image is not as its statement says
  1  an error   2  usage`),
		Args:              sourceArgs("verify", "SOURCE", 1),
		ValidArgsFunction: completeNames(e, noContainers),
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("against") && opts.against == "" {
				return usagef("verify", "--against is empty: name the base, or leave it out")
			}
			if cmd.Flags().Changed("statement") && opts.statement == "" {
				return usagef("verify", "--statement is empty: name the file, or leave it out")
			}
			if opts.explain && opts.against == "" {
				return usagef("verify", "--explain shows the code on both sides: name the other one with --against")
			}
			return runVerify(cmd.Context(), opts, args[0], out, e)
		},
	}
	cmd.Flags().StringVar(&opts.against, "against", "", "compare with `BASE`, the image or file before patching")
	cmd.Flags().BoolVar(&opts.provenance, "provenance", false, "print the statement of provenance, and check what it says")
	cmd.Flags().StringVar(&opts.statement, "statement", "", "take the statement of provenance from `FILE`")
	opts.addExplain(cmd)
	opts.printOptions.add(cmd)
	opts.addMedia(cmd)
	opts.addJobs(cmd)
	return cmd
}

func runVerify(ctx context.Context, opts VerifyOptions, source string, out *output, e engine) error {
	platform, err := opts.workOptions.check("verify")
	if err != nil {
		return err
	}
	if err := opts.printOptions.check("verify"); err != nil {
		return err
	}
	v, err := e.verify(ctx, source, images.VerifyOptions{
		ScanOptions: images.ScanOptions{
			Media: opts.media(platform, out.startProgress(ctx, opts.progress)), Jobs: opts.jobs, Shim: fallbackShim(),
			Rewriter: rewriter.Options{Explain: opts.explain},
		},
		Against:    opts.against,
		Provenance: opts.provenance || opts.statement != "", Statement: opts.statement,
	})
	if err != nil {
		return err
	}
	out.endProgress()
	if err := out.verified(opts, v); err != nil {
		return err
	}
	return errors.Join(incomplete(v.Findings), verifyFindings(opts, v))
}

// verifyFindings says what the proof lacks.
func verifyFindings(opts VerifyOptions, v *images.Verified) error {
	open := uncoveredSites(v.Findings)
	switch {
	case len(v.Problems) > 0 && opts.against == "":
		return &findingsError{
			msg:  fmt.Sprintf("%s: not as its statement says: %s", v.Findings.Source, count(len(v.Problems), "difference")),
			hint: "the statement is of another image, or one of the two was changed: build it again with vfix rebuild",
		}
	case len(v.Problems) > 0:
		verb := "rebuild"
		if v.Findings.Digest == "" {
			verb = "patch"
		}
		return &findingsError{
			msg:  fmt.Sprintf("%s: not what vfix makes of %s: %s", v.Findings.Source, opts.against, count(len(v.Problems), "difference")),
			hint: fmt.Sprintf("compare with the base it was built from, or build it again with vfix %s", verb),
		}
	case open > 0:
		return &findingsError{
			msg:  fmt.Sprintf("%s: %s left", v.Findings.Source, count(open, openSite)),
			hint: fmt.Sprintf("run 'vfix scan --explain %s'", v.Findings.Source),
		}
	}
	return nil
}
