// What differs in a file that verify compared, on paper: the listing of each call site, then
// what changes beside them:
//
//	lib/libc.so.6: what else changes
//	  offset 0x18   8 bytes  e_entry          5015020000000000 -> 0020120000000000
//	  offset 0x40 784 bytes  program headers  112 of them differ
//	  16408 bytes appended

package main

import (
	"fmt"
	"io"

	"vfix.dev/vfix/cmd/vfix/listing"
	"vfix.dev/vfix/cmd/vfix/screen"
	"vfix.dev/vfix/images"
	"vfix.dev/vfix/images/contents"
	"vfix.dev/vfix/rewriter"
)

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
			l.Reasons = []string{"no code of the file before is there"}
		}
		l.Write(w, s)
		return
	}
	file := contents.File{Path: d.Path}
	sites := map[uint64]bool{}
	for i := range d.Patches {
		if p := &d.Patches[i]; p.Form != rewriter.Left {
			sites[p.Offset] = true
			if l, ok := listing.Of(&file, p); ok {
				l.Write(w, s)
			}
		}
	}
	if l, ok := listing.Repair(d.Path, d.Redirect); ok {
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
func editText(e rewriter.Edit) string {
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
