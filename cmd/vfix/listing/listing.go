// Package listing prints the disassembly around a call site, before and after:
//
//	lib/libc.so.6: time at 0x9f8b4 in time
//	  live: the register is called, and used for nothing else
//	  entry: the whole function is a stub
//	         before                          after
//	  9f8b0  48 83 ec 08     sub $0x8,%rsp | e9 4b 07 16 00 jmp 0x200000 <vfix_time>
//
// The widest of three layouts that fits is used: bytes apart; bytes packed four a line and
// operands of the right side wrapped; one listing below the other.
package listing

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/mattn/go-runewidth"

	"vfix.dev/vfix/cmd/vfix/screen"
	"vfix.dev/vfix/images/contents"
	"vfix.dev/vfix/rewriter/find"
	"vfix.dev/vfix/rewriter/patch"
	"vfix.dev/vfix/rewriter/x86"
)

// Site is the code around one site. Both sides cover the same addresses.
type Site struct {
	Title         string   // the site: function, symbol, verdict
	Reasons       []string // the reasons for the verdict and for the form, or for leaving it
	Before, After []x86.Line
}

// unlimited is the width of a text that need not wrap.
const unlimited = 1 << 20

// Write prints the listing for s.
func (l *Site) Write(w io.Writer, s screen.Stream) {
	fmt.Fprintln(w, s.Paint.Bold(screen.Printable(l.Title)))
	for _, reason := range l.Reasons {
		s.Write(w, "  ", 2, reason)
	}
	l.Code(w, s)
	fmt.Fprintln(w)
}

// Code prints the instructions alone.
func (l *Site) Code(w io.Writer, s screen.Stream) {
	width := cmp.Or(s.Width, unlimited)
	switch {
	case len(l.Before) == 0 && len(l.After) == 0:
	case len(l.After) == 0:
		l.stacked(w, s.Paint, width, "", l.Before)
	case l.beside(w, s.Paint, width, spaced, false), l.beside(w, s.Paint, width, packed, true):
	default:
		l.stacked(w, s.Paint, width, "before", l.Before)
		l.stacked(w, s.Paint, width, "after", l.After)
	}
}

// byteStyle writes the bytes of an instruction in lines.
type byteStyle func([]byte) []string

func spaced(b []byte) []string { return []string{fmt.Sprintf("% x", b)} }

func packed(b []byte) []string {
	const perLine = 4
	var lines []string
	for len(b) > perLine {
		lines = append(lines, fmt.Sprintf("%x", b[:perLine]))
		b = b[perLine:]
	}
	return append(lines, fmt.Sprintf("%x", b))
}

// cell is one line on one side.
type cell struct {
	vaddr, bytes, text string
	changed            bool
}

// cells lays out the instructions of one side; each starts a new line. Texts wrap at
// width columns.
func cells(all []x86.Line, style byteStyle, width int) (out [][]cell) {
	for _, in := range all {
		bytes, texts := style(in.Bytes), screen.Wrap(screen.Printable(in.Text), width)
		lines := make([]cell, max(len(bytes), len(texts)))
		for i, b := range bytes {
			lines[i].bytes = b
		}
		for i, t := range texts {
			lines[i].text = t
		}
		lines[0].vaddr = fmt.Sprintf("%x", in.Vaddr)
		for i := range lines {
			lines[i].changed = in.Changed
		}
		out = append(out, lines)
	}
	return out
}

// beside prints both sides next to each other, or nothing if they do not fit.
func (l *Site) beside(w io.Writer, c screen.Palette, width int, style byteStyle, wraps bool) bool {
	left, right := cells(l.Before, style, unlimited), cells(l.After, style, unlimited)
	lw, rw := widths(left), widths(right)
	const margins = 2 + 2 + 1 + 3 + 1 // indent, gap, gap, " | ", gap
	room := width - margins - max(lw.vaddr, rw.vaddr) - lw.bytes - lw.text - rw.bytes
	if wraps && room < rw.text {
		right = cells(l.After, style, room)
		rw = widths(right)
	}
	if room < rw.text {
		return false
	}
	head := screen.Pad("", lw.vaddr, false) + "  " + screen.Pad("before", lw.bytes+1+lw.text, false) + "   after"
	fmt.Fprintln(w, c.Dim("  "+head))
	for _, row := range l.rows(left, right) {
		b, a := row[0], row[1]
		at := cmp.Or(b.vaddr, a.vaddr)
		mark := "|"
		if !b.changed && !a.changed {
			mark = " "
		}
		old := screen.Pad(b.bytes, lw.bytes, false) + " " + screen.Pad(b.text, lw.text, false)
		after := screen.Pad(a.bytes, rw.bytes, false) + " " + a.text
		if mark == "|" {
			old, after = paintText(c.Red, old), paintText(c.Green, after)
		}
		line := fmt.Sprintf("  %s  %s %s %s", screen.Pad(at, lw.vaddr, true), old, mark, after)
		fmt.Fprintln(w, strings.TrimRight(line, " "))
	}
	return true
}

// paintText paints s but not the spaces behind it.
func paintText(paint func(string) string, s string) string {
	text := strings.TrimRight(s, " ")
	return paint(text) + s[len(text):]
}

// rows pairs the two sides by address: a line that begins an instruction at an address without one on the
// other side is alone.
func (l *Site) rows(left, right [][]cell) (out [][2]cell) {
	at := map[uint64][2][]cell{}
	for i, in := range l.Before {
		at[in.Vaddr] = [2][]cell{left[i], nil}
	}
	for i, in := range l.After {
		at[in.Vaddr] = [2][]cell{at[in.Vaddr][0], right[i]}
	}
	for _, vaddr := range slices.Sorted(maps.Keys(at)) {
		both := at[vaddr]
		for n := range max(len(both[0]), len(both[1])) {
			var row [2]cell
			for side, lines := range both {
				if n < len(lines) {
					row[side] = lines[n]
				}
				// A second line of bytes belongs to the same instruction: it keeps the mark.
				row[side].changed = len(lines) > 0 && lines[0].changed
			}
			out = append(out, row)
		}
	}
	return out
}

// stacked prints one side as objdump does, its texts wrapped if they do not fit; changed lines are marked.
func (l *Site) stacked(w io.Writer, c screen.Palette, terminal int, name string, side []x86.Line) {
	if name != "" {
		fmt.Fprintln(w, "  "+name+":")
	}
	all := cells(side, spaced, unlimited)
	width := widths(all)
	const margins = 2 + 1 + 1 + 2 + 1 // indent, mark, gap, gap, gap
	if room := terminal - margins - width.vaddr - width.bytes; room < width.text {
		all = cells(side, spaced, max(room, screen.MinLast))
	}
	paint := c.Red
	if name == "after" {
		paint = c.Green
	}
	for _, lines := range all {
		for _, in := range lines {
			mark, p := " ", func(s string) string { return s }
			if in.changed {
				mark, p = "|", paint
			}
			line := screen.Pad(in.vaddr, width.vaddr, true) + "  " + screen.Pad(in.bytes, width.bytes, false) + " " + in.text
			fmt.Fprintln(w, strings.TrimRight("  "+mark+" "+p(line), " "))
		}
	}
}

// columns are the widths that a side needs.
type columns struct{ vaddr, bytes, text int }

func widths(side [][]cell) columns {
	var c columns
	for _, lines := range side {
		for _, l := range lines {
			c.vaddr = max(c.vaddr, len(l.vaddr))
			c.bytes = max(c.bytes, len(l.bytes))
			c.text = max(c.text, runewidth.StringWidth(l.text))
		}
	}
	return c
}

// Of returns the listing of one patch of a file, and whether it has one.
func Of(f *contents.File, p *patch.Patch) (Site, bool) {
	if p.Listing == nil || p.Site.Verdict == find.Benign {
		return Site{}, false
	}
	l := Site{Title: fmt.Sprintf("%s: %v at %#x", f.Path, p.Site.Function, p.Site.Vaddr), Before: p.Listing.Before, After: p.Listing.After}
	if p.Site.Symbol != "" {
		l.Title += " in " + p.Site.Symbol
	}
	l.Reasons = []string{fmt.Sprintf("%v: %s", p.Site.Verdict, p.Site.Reason)}
	if p.Reason.Cause != 0 && p.Reason.Cause != patch.ByVerdict {
		l.Reasons = append(l.Reasons, fmt.Sprintf("%v: %s", p.Form, p.Reason))
	}
	return l, true
}

// Fix is what is shown about a fix of a file besides its call sites; false if there is
// nothing.
func Fix(path string, d *find.Redirect) (Site, bool) {
	if d == nil || d.Listing == nil {
		return Site{}, false
	}
	l := Site{Title: fmt.Sprintf("%s: %s at %#x", path, d.Fix, d.Vaddr), Before: d.Listing.Before, After: d.Listing.After}
	l.Reasons = []string{"lea: loads the name of a file; the injected code changes the copy of it at load, where the file misleads the program"}
	if d.Reason != "" {
		l.Reasons = []string{"left: " + d.Reason}
	}
	return l, true
}

// Explain writes the listings of all sites but the benign ones.
func Explain(w io.Writer, s screen.Stream, f *contents.Findings) {
	for i := range f.Files {
		for n := range f.Files[i].Plan.Patches {
			if l, ok := Of(&f.Files[i], &f.Files[i].Plan.Patches[n]); ok {
				l.Write(w, s)
			}
		}
		plan := f.Files[i].Plan
		if l, ok := Fix(f.Files[i].Path, plan.Redirect); ok {
			l.Write(w, s)
		}
		writeLines(w, s, f.Files[i].Path+": what else changes", plan.Notes)
	}
}

// writeLines writes lines below a head; nothing if there are none.
func writeLines(w io.Writer, s screen.Stream, head string, lines []string) {
	if len(lines) == 0 {
		return
	}
	fmt.Fprintln(w, s.Paint.Bold(screen.Printable(head)))
	for _, text := range lines {
		s.Write(w, "  ", 2, text)
	}
	fmt.Fprintln(w)
}
