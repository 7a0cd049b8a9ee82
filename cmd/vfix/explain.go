// The output of --explain: the code around each call site, before and after, as a difference.
//
//	lib/libc.so.6: time at 0x9f8b4 in time
//	  live: the register is called, and used for nothing else
//	  entry: the whole function is a stub
//	  - 9f8b0  48 83 ec 08           sub $0x8,%rsp
//	  - 9f8b4  48 c7 c0 00 04 60 ff  mov $0xffffffffff600400,%rax
//	  + 9f8b0  e9 4b 07 16 00        jmp 0x200000 <vfix_time>
//	    9f8bd  48 83 c4 08           add $0x8,%rsp

package main

import (
	"fmt"

	"vfix.dev/vfix/cmd/vfix/screen"
	"vfix.dev/vfix/images/contents"
	"vfix.dev/vfix/rewriter/find"
	"vfix.dev/vfix/rewriter/patch"
	"vfix.dev/vfix/rewriter/x86"
)

// writeExplained writes the code around all sites but the benign ones, and what else changes.
func writeExplained(s screen.Stream, f *contents.Findings) {
	for i := range f.Files {
		file := &f.Files[i]
		for n := range file.Plan.Patches {
			writeSite(s, file.Path, &file.Plan.Patches[n])
		}
		writeFix(s, file.Path, file.Plan.Redirect)
		s.List(file.Path+": also changes: ", file.Plan.Notes)
	}
}

// writeSite writes one site; nothing if it is benign, or has no code.
func writeSite(s screen.Stream, path string, p *patch.Patch) {
	if p.Listing == nil || p.Site.Verdict == find.Benign {
		return
	}
	title := fmt.Sprintf("%s: %v at %#x", path, p.Site.Function, p.Site.Vaddr)
	if p.Site.Symbol != "" {
		title += " in " + p.Site.Symbol
	}
	reasons := []string{fmt.Sprintf("%v: %s", p.Site.Verdict, p.Site.Reason)}
	if p.Reason.Cause != 0 && p.Reason.Cause != patch.ByVerdict {
		reasons = append(reasons, fmt.Sprintf("%v: %s", p.Form, p.Reason))
	}
	writeCode(s, title, reasons, p.Listing.Before, p.Listing.After)
}

// writeFix writes a change besides call sites, if the file has one.
func writeFix(s screen.Stream, path string, d *find.Redirect) {
	if d == nil || d.Listing == nil {
		return
	}
	reason := "lea: loads the name of a file; the injected code changes the copy of it at load"
	if d.Reason != "" {
		reason = "left: " + d.Reason
	}
	writeCode(s, fmt.Sprintf("%s: %s at %#x", path, d.Fix, d.Vaddr), []string{reason}, d.Listing.Before, d.Listing.After)
}

// writeCode writes a title, the reasons, and the difference between two pieces of code; after is nil if there is one.
func writeCode(s screen.Stream, title string, reasons []string, before, after []x86.Line) {
	plain := func(line string) string { return line }
	fmt.Fprintln(s, s.Paint.Bold(screen.Printable(title)))
	for _, text := range reasons {
		s.Print(screen.Gap, nil, text)
	}
	for len(before) > 0 {
		changed := func(l x86.Line) bool { return l.Changed && after != nil }
		for len(before) > 0 && changed(before[0]) {
			writeInstruction(s, "-", s.Paint.Red, before[0])
			before = before[1:]
		}
		for len(after) > 0 && changed(after[0]) {
			writeInstruction(s, "+", s.Paint.Green, after[0])
			after = after[1:]
		}
		if len(before) > 0 {
			writeInstruction(s, " ", plain, before[0])
			before, after = before[1:], after[min(len(after), 1):]
		}
	}
	fmt.Fprintln(s)
}

// writeInstruction writes a line of a listing as objdump does.
func writeInstruction(s screen.Stream, mark string, paint func(string) string, l x86.Line) {
	const bytes = len("48 c7 c0 00 04 60 ff") // the longest that is usual
	line := fmt.Sprintf("  %s %x  %-*s  %s", mark, l.Vaddr, bytes, fmt.Sprintf("% x", l.Bytes), screen.Printable(l.Text))
	fmt.Fprintln(s, paint(line))
}
