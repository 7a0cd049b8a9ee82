// The verb verify: its options, what it proved, and the findings if its proof fails.

package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"vfix.dev/vfix/cmd/vfix/screen"
	"vfix.dev/vfix/images"
)

func newVerifyCommand(out *output, e engine) *cobra.Command {
	var opts workOptions
	var with images.VerifyOptions
	cmd := newVerb("verify [options] SOURCE", arguments("SOURCE", 1, 1), func(ctx context.Context, args []string) error {
		with.ScanOptions, with.Version = opts.read, buildVersion().Version
		v, err := e.verify(ctx, args[0], with)
		if err != nil {
			return err
		}
		return out.verified(args[0], with.Against, v)
	})
	cmd.Flags().StringVar(&with.Against, "against", "", "compare with `BASE`, the image or file before patching")
	opts.add(cmd, out, withImages, withJobs)
	return cmd
}

type jsonVerified struct {
	Against string `json:"against"`
	*images.Verified
	Result jsonSource `json:"result"`
}

// verified prints what verify proved, and what it could not: with a base the comparison, then what a scan says.
func (o *output) verified(source, base string, v *images.Verified) (err error) {
	f := v.Findings
	o.warnings(f, false)
	err = o.show(false, jsonVerified{base, v, sourceJSON(f, f.Verdict())}, func(s screen.Stream) {
		if base != "" {
			writeComparison(s, source, base, v)
		}
		writeVerdict(s, source, f)
		writeFiles(s, f)
	})
	switch sites, _, fixable := countSites(f); {
	case len(v.Problems) > 0:
		verb := "rebuild"
		if f.Digest == "" {
			verb = "patch"
		}
		err = errors.Join(err, finding("compare with the base it was built from, or create it again with vfix "+verb,
			"%s: not what vfix makes from %s: %s", source, base, screen.Count(len(v.Problems)+v.More, "difference")))
	case fixable > 0:
		err = errors.Join(err, finding("run "+quoted(scanOf("", source))+" for the command that fixes it", "%s: %s left", source, screen.Count(sites, "call site")))
	case f.Uncovered().Live > 0:
		err = errors.Join(err, finding("run "+quoted(explain(source)), "%s: %s left", source, screen.Count(sites, "call site")))
	}
	return errors.Join(err, incomplete(f, source))
}

// writeComparison says whether anything differs that vfix does not change, and what vfix changed.
func writeComparison(s screen.Stream, source, base string, v *images.Verified) {
	if n := len(v.Problems) + v.More; n > 0 {
		s.Headline(source, screen.Count(n, "difference"), s.Paint.Red, " from "+base+" that vfix does not make")
		for _, p := range v.Problems {
			s.Print(screen.Gap, nil, p)
		}
		if v.More > 0 {
			fmt.Fprintf(s, "%sand %d more\n", screen.Gap, v.More)
		}
	} else {
		what := screen.Count(v.Compared, "file") + " changed from " + base
		s.Headline(source, "VERIFIED", s.Paint.Green, ": "+what+", only at call sites and for vfix's own code")
		if len(v.Added) > 0 {
			s.Print("added by vfix: ", nil, strings.Join(v.Added, ", "))
		}
	}
	s.List("not compared: ", v.NotCompared)
}
