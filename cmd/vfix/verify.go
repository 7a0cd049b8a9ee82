// The verb verify: its options, and the findings if its proof fails.

package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"vfix.dev/vfix/cmd/vfix/screen"
	"vfix.dev/vfix/cmd/vfix/tables"
	"vfix.dev/vfix/images"
)

// VerifyOptions are the choices of vfix verify.
type VerifyOptions struct {
	workOptions
	with images.VerifyOptions
}

func newVerifyCommand(out *output, e engine) *cobra.Command {
	var opts VerifyOptions
	cmd := &cobra.Command{
		Use:   "verify [options] SOURCE",
		Short: "Prove that no call site is left and that nothing else changed",
		Long: `Examine SOURCE again and prove that it contains no live call site of the
vsyscall page, or that the fallback in it covers the remaining ones. With
--against, also compare every file with the base, and the image config, the
manifest, the index and each tar header of the added layer with what a rebuild
of the base writes: only patched call sites, what they need, and this version's
fallback may differ. Parts that cannot be compared are listed, for example when
a docker daemon has no manifest. Nothing is changed.

--explain shows each difference on both sides: the disassembly around call
sites, and the bytes of changed headers.

With --provenance, print the statement of provenance that a rebuild attached to
the image or wrote next to it, and check it: every file before and after, every
byte that is stated to differ, and that no other byte does. This needs only the
image, because it contains the layers of its base. The table is printed on
stderr in this case.

For SOURCE and BASE see 'vfix help sources'.`,
		Example: `  vfix verify redis:2.8.22-vfix
  vfix verify redis:2.8.22-vfix --against redis:2.8.22
  vfix verify ./fixed/libc.so.6 --against ./libc.so.6
  vfix verify docker://old/app:1-vfix --provenance | jq .predicate.files`,
		Annotations: exits(`  0  proved
  3  live or unknown call sites are left, or something else differs from BASE,
     or the image does not match its statement
  4  part of SOURCE was not examined
  1  error   2  usage error`),
		Args:              sourceArgs("verify", "SOURCE", 1),
		ValidArgsFunction: completeNames(e, noContainers),
		RunE: func(cmd *cobra.Command, args []string) error {
			if opts.explain && opts.with.Against == "" {
				return usagef("verify", "--explain compares with a base: name it with --against")
			}
			return runVerify(cmd.Context(), opts, args[0], out, e)
		},
	}
	cmd.Flags().StringVar(&opts.with.Against, "against", "", "compare with `BASE`, the image or file before patching")
	cmd.Flags().BoolVar(&opts.with.Provenance, "provenance", false, "print the statement of provenance and check it")
	cmd.Flags().StringVar(&opts.with.Statement, "statement", "", "read the statement of provenance from `FILE`")
	opts.addExplain(cmd)
	opts.printOptions.add(cmd)
	opts.addMedia(cmd)
	opts.addJobs(cmd, "files")
	return cmd
}

func runVerify(ctx context.Context, opts VerifyOptions, source string, out *output, e engine) error {
	if err := opts.begin(ctx, "verify", out); err != nil {
		return err
	}
	o := opts.with
	o.ScanOptions, o.Version, o.Provenance = opts.read, buildVersion().Version, o.Provenance || o.Statement != ""
	v, err := e.verify(ctx, source, o)
	if err != nil {
		return err
	}
	out.EndProgress()
	if err := out.verified(opts, v); err != nil {
		return err
	}
	return errors.Join(verifyFindings(opts, v), incompleteInAll(v.Findings, scanIt))
}

// verifyFindings are the reasons why the proof fails.
func verifyFindings(opts VerifyOptions, v *images.Verified) error {
	open := uncoveredInAll(v.Findings)
	switch {
	case len(v.Problems) > 0 && opts.with.Against == "":
		return finding("the statement belongs to another image, or one of the two was changed: rebuild the image with vfix rebuild",
			"%s: does not match its statement: %s", v.Findings.Source, screen.Count(len(v.Problems), "difference"))
	case len(v.Problems) > 0:
		verb := "rebuild"
		if v.Findings.Digest == "" {
			verb = "patch"
		}
		return finding("compare with the base it was built from, or create it again with vfix "+verb,
			"%s: not what vfix makes from %s: %s", v.Findings.Source, opts.with.Against, screen.Count(len(v.Problems), "difference"))
	case open > 0:
		return finding("run "+quoted(explain(v.Findings.Source)),
			"%s: %s left", v.Findings.Source, screen.Count(open, tables.OpenSite))
	}
	return nil
}
