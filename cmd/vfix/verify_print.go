// The output of vfix verify: what it proved, and what it could not.

package main

import (
	"fmt"
	"io"
	"strings"

	"vfix.dev/vfix/cmd/vfix/screen"
	"vfix.dev/vfix/cmd/vfix/tables"
	"vfix.dev/vfix/images"
	"vfix.dev/vfix/internal/fixes"
)

// verified prints what verify proved, and what it could not.
func (o *output) verified(opts VerifyOptions, v *images.Verified) error {
	for _, f := range v.Findings.All() {
		o.warnings(f)
	}
	if opts.json() {
		return o.document("verify", false, verifiedJSON(opts, v))
	}
	w, s := io.Writer(o.Stdout), o.Out
	if v.Stated != nil {
		o.Result(string(v.Stated.Raw))
		w, s = o.Stderr, o.Err
	}
	tampered := opts.with.Against != "" && len(v.Problems) > 0
	if tampered { // what matters most comes first
		writeComparison(w, s, screen.Printable(opts.with.Against), v)
		fmt.Fprintln(w)
	}
	if v.Stated == nil || !o.Quiet {
		for _, f := range v.Findings.All() {
			tables.Write(w, s, tables.Verified, f)
		}
	}
	for i := range v.Differences {
		writeDifference(w, s, &v.Differences[i])
	}
	if opts.with.Against != "" && !tampered {
		writeComparison(w, s, screen.Printable(opts.with.Against), v)
	}
	if v.Stated != nil {
		o.stated(opts, v)
	}
	return nil
}

// stated says what became of the check of a statement.
func (o *output) stated(opts VerifyOptions, v *images.Verified) {
	if opts.with.Against == "" { // else they are in the comparison
		for _, n := range v.NotCompared {
			o.Note("not checked: %s", n)
		}
	}
	if len(v.Problems) == 0 {
		p := &v.Stated.Statement.Predicate
		o.Note("%s: the image matches its statement: %s, %s, and nothing else of %s differs", v.Stated.From,
			screen.Count(len(p.Files), "patched file"), screen.Count(len(p.Added), "added file"), p.Base.Name)
		return
	}
	if opts.with.Against == "" {
		for _, p := range v.Problems {
			o.Warn("%s", p)
		}
	}
}

func writeComparison(w io.Writer, s screen.Stream, base string, v *images.Verified) {
	c := s.Paint
	defer func() {
		for _, n := range v.NotCompared {
			s.Write(w, "not compared: ", len("not compared: "), n)
		}
	}()
	if len(v.Problems) == 0 {
		fmt.Fprintln(w, c.Green("against "+base+": ")+
			screen.Count(v.Compared, "changed file")+": nothing else changed: only the patched calls and vfix's own code differ")
		for _, r := range v.Fixed {
			s.Write(w, "fixed: ", len("fixed: "), fmt.Sprintf("%s (%s, which reads /%s): %s", r.Path, r.Fix, fixes.FileOf(r.Fix).Name, fixes.Does(r.Fix)))
		}
		if len(v.Added) > 0 {
			fmt.Fprintln(w, "added: the fallback of this vfix: "+strings.Join(v.Added, ", "))
		}
		if len(v.Corrected) > 0 {
			fmt.Fprintln(w, "updated: the md5sums of patched files: "+screen.Printable(strings.Join(v.Corrected, ", ")))
		}
		return
	}
	fmt.Fprintln(w, c.Red("against "+base+": ")+screen.Count(len(v.Problems), "difference")+" that vfix does not make:")
	for _, p := range v.Problems {
		s.Write(w, screen.Gap, len(screen.Gap), p)
	}
}
