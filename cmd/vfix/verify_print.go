// The output of vfix verify: what it proved, and what it could not. For a compared file it lists the call
// sites, then the other changes:
//
//	lib/libc.so.6: what else changes
//	  offset 0x18   8 bytes  e_entry          5015020000000000 -> 0020120000000000
//	  offset 0x40 784 bytes  program headers  112 of them differ
//	  16408 bytes appended

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"vfix.dev/vfix/cmd/vfix/listing"
	"vfix.dev/vfix/cmd/vfix/screen"
	"vfix.dev/vfix/cmd/vfix/tables"
	"vfix.dev/vfix/images"
	"vfix.dev/vfix/images/contents"
	"vfix.dev/vfix/internal/fixes"
	"vfix.dev/vfix/rewriter/patch"
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
	if tampered { // the most important comes first
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
			s.Write(w, "fixed: ", len("fixed: "), fmt.Sprintf("%s (%s, which reads /%s): %s", r.Path, r.Fix, fixes.Of(r.Fix).File.Name, fixes.Of(r.Fix).Does))
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

// shownEdit is how long a run of bytes may be to be shown on a line, in bytes.
const shownEdit = 8

func writeDifference(w io.Writer, s screen.Stream, d *images.Difference) {
	if d.Unplanned != nil {
		l := listing.Site{
			Title:   fmt.Sprintf("%s: %v", d.Path, d.Unplanned),
			Reasons: []string{"the code there, before and after:"},
			Before:  d.Listing.Before, After: d.Listing.After,
		}
		if len(l.Before) == 0 {
			l.Reasons = []string{"the original file has no code there"}
		}
		l.Write(w, s)
		return
	}
	file := contents.File{Path: d.Path}
	sites := map[uint64]bool{}
	for i := range d.Patches {
		if p := &d.Patches[i]; p.Form != patch.Left {
			sites[p.Offset] = true
			if l, ok := listing.Of(&file, p); ok {
				l.Write(w, s)
			}
		}
	}
	if l, ok := listing.Fix(d.Path, d.Redirect); ok {
		l.Write(w, s)
		sites[d.Redirect.Offset] = true
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
	Stated      *jsonStated      `json:"provenance,omitempty"`
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

type jsonStated struct {
	From      string          `json:"from"`
	Statement json.RawMessage `json:"statement"`
}

func verifiedJSON(opts VerifyOptions, v *images.Verified) jsonVerified {
	doc := jsonVerified{Against: opts.with.Against, Verified: v, Result: sourceJSON(v.Findings, v.Findings.Verdict())}
	for _, l := range v.Findings.Levels {
		doc.Levels = append(doc.Levels, sourceJSON(l, l.Verdict()))
	}
	for i := range v.Differences {
		doc.Differences = append(doc.Differences, differenceJSON(&v.Differences[i]))
	}
	if v.Stated != nil {
		doc.Stated = &jsonStated{v.Stated.From, v.Stated.Raw}
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
