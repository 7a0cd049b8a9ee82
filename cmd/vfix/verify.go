// The verb verify: its options, and the findings if its proof fails.

package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"vfix.dev/vfix/cmd/vfix/screen"
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
		Long: `Examine SOURCE and say what a scan says. With --against, also compare it with
BASE: every file, the config, the manifest, the index and each tar header of the
added layer must be what a rebuild or patch of BASE writes, so only call sites,
what they need, and this version's fallback may differ. Parts that cannot be
compared are listed, for example when a docker daemon has no manifest. Nothing
is changed.

--explain shows each difference on both sides: the machine code around call
sites, and the bytes of changed headers.

For SOURCE and BASE see 'vfix help sources'.`,
		Example: `  vfix verify redis:2.8.22-vfix
  vfix verify redis:2.8.22-vfix --against redis:2.8.22
  vfix verify ./fixed/libc.so.6 --against ./libc.so.6`,
		Annotations: exits(`  0  proved
  3  live or unknown call sites are left, or something else differs from BASE
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
	opts.addExplain(cmd)
	opts.printOptions.add(cmd)
	opts.addMedia(cmd)
	opts.addJobs(cmd)
	return cmd
}

func runVerify(ctx context.Context, opts VerifyOptions, source string, out *output, e engine) error {
	if err := opts.begin("verify", out); err != nil {
		return err
	}
	o := opts.with
	o.ScanOptions, o.Version = opts.read, buildVersion().Version
	v, err := e.verify(ctx, source, o)
	if err != nil {
		return err
	}
	if err := out.verified(opts, source, v); err != nil {
		return err
	}
	return errors.Join(verifyFindings(opts, source, v), incompleteInAll(v.Findings))
}

// verifyFindings are the reasons why the proof fails.
func verifyFindings(opts VerifyOptions, source string, v *images.Verified) error {
	open := uncoveredInAll(v.Findings)
	switch {
	case len(v.Problems) > 0:
		verb := "rebuild"
		if v.Findings.Digest == "" {
			verb = "patch"
		}
		return finding("compare with the base it was built from, or create it again with vfix "+verb,
			"%s: not what vfix makes from %s: %s", source, opts.with.Against, screen.Count(len(v.Problems), "difference"))
	case open > 0:
		return finding("run "+quoted(explain(source)),
			"%s: %s left", source, screen.Count(open, openSite))
	}
	return nil
}
