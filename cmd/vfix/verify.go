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
		Use:  "verify [options] SOURCE",
		Args: arguments("SOURCE", 1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return runVerify(cmd.Context(), opts, args[0], out, e)
		},
	}
	cmd.Flags().StringVar(&opts.with.Against, "against", "", "compare with `BASE`, the image or file before patching")
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
	return errors.Join(verifyFindings(opts, source, v), incomplete(v.Findings))
}

// verifyFindings are the reasons why the proof fails.
func verifyFindings(opts VerifyOptions, source string, v *images.Verified) error {
	open := v.Findings.UncoveredSites() > 0
	sites, _, _ := countSites(v.Findings)
	switch {
	case len(v.Problems) > 0:
		verb := "rebuild"
		if v.Findings.Digest == "" {
			verb = "patch"
		}
		return finding("compare with the base it was built from, or create it again with vfix "+verb,
			"%s: not what vfix makes from %s: %s", source, opts.with.Against, screen.Count(len(v.Problems)+v.More, "difference"))
	case open:
		return finding("run "+quoted(explain(source)),
			"%s: %s left", source, screen.Count(sites, "call site"))
	}
	return nil
}
