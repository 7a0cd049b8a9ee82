// The output of vfix verify: what it proved, and what it could not.

package main

import (
	"fmt"
	"io"
	"strings"

	"vfix.dev/vfix/cmd/vfix/screen"
	"vfix.dev/vfix/images"
)

// verified prints what verify proved, and what it could not: with a base the comparison, then what a scan says.
func (o *output) verified(opts VerifyOptions, source string, v *images.Verified) error {
	o.warnings(v.Findings)
	if opts.json() {
		return o.document("verify", false, verifiedJSON(opts, v))
	}
	if opts.with.Against != "" {
		writeComparison(o.Stdout, o.Out, source, opts.with.Against, v)
	}
	writeVerdict(o.Stdout, o.Out, source, v.Findings)
	writeFiles(o.Stdout, o.Out, v.Findings)
	return nil
}

// writeComparison says whether anything differs that vfix does not change, and what vfix changed.
func writeComparison(w io.Writer, s screen.Stream, source, base string, v *images.Verified) {
	if n := len(v.Problems) + v.More; n > 0 {
		s.Headline(w, source, screen.Count(n, "difference"), s.Paint.Red, " from "+base+" that vfix does not make")
		for _, p := range v.Problems {
			s.Write(w, screen.Gap, len(screen.Gap), p)
		}
		if v.More > 0 {
			fmt.Fprintf(w, "%sand %d more\n", screen.Gap, v.More)
		}
	} else {
		what := screen.Count(v.Compared, "file") + " changed from " + base
		s.Headline(w, source, "VERIFIED", s.Paint.Green, ": "+what+", only at call sites and for vfix's own code")
		if len(v.Added) > 0 {
			s.Write(w, "added by vfix: ", len(screen.Gap), strings.Join(v.Added, ", "))
		}
	}
	writeLines(w, s, "not compared: ", v.NotCompared)
}

type jsonVerified struct {
	Against string `json:"against"`
	*images.Verified
	Result jsonSource `json:"result"`
}

func verifiedJSON(opts VerifyOptions, v *images.Verified) jsonVerified {
	return jsonVerified{opts.with.Against, v, sourceJSON(v.Findings, v.Findings.Verdict())}
}
