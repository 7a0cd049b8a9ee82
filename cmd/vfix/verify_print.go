// The output of vfix verify: what it proved, and what it could not. For a compared file it lists the call
// sites, then the other changes:
//
//	lib/libc.so.6: what else changes
//	  offset 0x18   8 bytes  e_entry          5015020000000000 -> 0020120000000000
//	  offset 0x40 784 bytes  program headers  112 of them differ
//	  16408 bytes appended

package main

import (
	"fmt"
	"io"
	"strings"

	"vfix.dev/vfix/cmd/vfix/screen"
	"vfix.dev/vfix/images"
	"vfix.dev/vfix/internal/fixes"
	"vfix.dev/vfix/rewriter/patch"
)

// verified prints what verify proved, and what it could not: with a base the comparison, else what a scan says.
func (o *output) verified(opts VerifyOptions, source string, v *images.Verified) error {
	for _, f := range v.Findings.All() {
		o.warnings(f)
	}
	if opts.json() {
		return o.document("verify", false, verifiedJSON(opts, v))
	}
	w, s := o.Stdout, o.Out
	if opts.with.Against != "" {
		writeComparison(w, s, source, opts.with.Against, v)
	}
	for i := range v.Differences {
		writeDifference(w, s, &v.Differences[i])
	}
	for _, f := range v.Findings.All() {
		writeVerdict(w, s, source, f)
		writeFiles(w, s, f)
	}
	return nil
}

// writeComparison says whether anything differs that vfix does not change, and what vfix changed.
func writeComparison(w io.Writer, s screen.Stream, source, base string, v *images.Verified) {
	title := s.Paint.Bold(screen.Printable(source)) + ": "
	if n := len(v.Problems); n > 0 {
		fmt.Fprintf(w, "%s%s\n", title, s.Paint.Red(screen.Count(n, "difference")+" from "+screen.Printable(base)+" that vfix does not make"))
		writeLines(w, s, screen.Gap, v.Problems)
		writeLines(w, s, "not compared: ", v.NotCompared)
		return
	}
	fmt.Fprintf(w, "%s%s: only call sites and what they need differ\n", title, s.Paint.Green(screen.Count(v.Compared, "file")+" changed from "+screen.Printable(base)))
	for _, r := range v.Fixed {
		s.Write(w, "fixed: ", len(screen.Gap), fmt.Sprintf("%s (%s, which reads /%s): %s", r.Path, r.Fix, fixes.Of(r.Fix).File.Name, fixes.Of(r.Fix).Does))
	}
	if len(v.Added) > 0 {
		s.Write(w, "added: ", len(screen.Gap), "the fallback of this vfix: "+strings.Join(v.Added, ", "))
	}
	writeLines(w, s, "not compared: ", v.NotCompared)
}

// shownEdit is how long a run of bytes may be to be shown on a line, in bytes.
const shownEdit = 8

func writeDifference(w io.Writer, s screen.Stream, d *images.Difference) {
	if d.Unplanned != nil {
		reason := "the code there, before and after:"
		if len(d.Listing.Before) == 0 {
			reason = "the original file has no code there"
		}
		writeCode(w, s, fmt.Sprintf("%s: %v", d.Path, d.Unplanned), []string{reason}, d.Listing.Before, d.Listing.After)
		return
	}
	sites := map[uint64]bool{}
	for i := range d.Patches {
		if p := &d.Patches[i]; p.Form != patch.Left {
			sites[p.Offset] = true
			writeSite(w, s, d.Path, p)
		}
	}
	if r := d.Redirect; r != nil && r.Listing != nil {
		writeFix(w, s, d.Path, r)
		sites[r.Offset] = true
	}
	fmt.Fprintln(w, s.Paint.Bold(screen.Printable(d.Path+": what else changes")))
	for _, e := range d.Edits {
		if !sites[e.Offset] {
			fmt.Fprintf(w, "  offset %#-8x %4d bytes  %-16s %s\n", e.Offset, len(e.Old), e.Why, editText(e))
		}
	}
	fmt.Fprintf(w, "  %d bytes appended\n\n", d.Appended)
}

// editText is both sides of a short run of bytes, in hex; of a long one, how many differ.
func editText(e patch.Edit) string {
	if len(e.Old) <= shownEdit {
		return fmt.Sprintf("%x -> %x", e.Old, e.New)
	}
	n := 0
	for i := range e.Old {
		if e.Old[i] != e.New[i] {
			n++
		}
	}
	return fmt.Sprintf("%d of them differ", n)
}

type jsonVerified struct {
	Against string `json:"against"`
	*images.Verified
	Differences []jsonDifference `json:"differences,omitempty"`
	Result      jsonSource       `json:"result"`
	Levels      []jsonSource     `json:"levels,omitempty"`
}

type jsonDifference struct {
	Path      string         `json:"path"`
	Sites     []jsonSite     `json:"sites"`
	Fix       *jsonFileFix   `json:"fix,omitempty"`
	Edits     []jsonEdit     `json:"edits"`
	Appended  int64          `json:"appended"`
	Unplanned *jsonUnplanned `json:"unplanned,omitempty"`
}

type jsonEdit struct {
	What   string `json:"what"`
	Offset uint64 `json:"offset"`
	Before string `json:"before"`
	After  string `json:"after"`
}

type jsonUnplanned struct {
	Offset  int64        `json:"offset"`
	Listing *jsonListing `json:"listing,omitempty"`
}

func verifiedJSON(opts VerifyOptions, v *images.Verified) jsonVerified {
	doc := jsonVerified{Against: opts.with.Against, Verified: v, Result: sourceJSON(v.Findings, v.Findings.Verdict())}
	for _, l := range v.Findings.Levels {
		doc.Levels = append(doc.Levels, sourceJSON(l, l.Verdict()))
	}
	for i := range v.Differences {
		doc.Differences = append(doc.Differences, differenceJSON(&v.Differences[i]))
	}
	return doc
}

func differenceJSON(d *images.Difference) jsonDifference {
	out := jsonDifference{Path: d.Path, Appended: d.Appended, Fix: fixJSON(d.Redirect)}
	for i := range d.Patches {
		out.Sites = append(out.Sites, siteJSON(&d.Patches[i]))
	}
	for _, e := range d.Edits {
		out.Edits = append(out.Edits, jsonEdit{e.Why, e.Offset, fmt.Sprintf("%x", e.Old), fmt.Sprintf("%x", e.New)})
	}
	if d.Unplanned != nil {
		out.Unplanned = &jsonUnplanned{d.Unplanned.Offset, listingJSON(&d.Listing)}
	}
	return out
}
