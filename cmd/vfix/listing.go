// The disassembly around a call site, before and after, on paper:
//
//	lib/libc.so.6: time at 0x9f8b4 in time
//	  live: the register is called, and used for nothing else
//	  entry: the whole function is a stub
//	         before                          after
//	  9f8b0  48 83 ec 08     sub $0x8,%rsp | e9 4b 07 16 00 jmp 0x200000 <vfix_time>
//
// The widest of three layouts that fits is used: bytes apart; bytes packed four a line and
// operands of the right side wrapped; one listing below the other.

package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/mattn/go-runewidth"

	"vfix.dev/vfix/images/contents"
	"vfix.dev/vfix/rewriter"
)

// listing is the code around one site. Both sides cover the same addresses.
type listing struct {
	title         string   // the site: function, symbol, verdict
	reasons       []string // why it was judged so, and is patched so or left
	before, after []rewriter.Line
}

// unlimited is the width of a text that need not wrap.
const unlimited = 1 << 20

// write prints the listing for s.
func (l *listing) write(w io.Writer, s stream) {
	width := s.width
	if width == 0 {
		width = unlimited // no terminal
	}
	fmt.Fprintln(w, s.paint.bold(printable(l.title)))
	for _, reason := range l.reasons {
		for _, line := range wrap(printable(reason), max(width-2, minLast)) {
			fmt.Fprintln(w, "  "+line)
		}
	}
	l.code(w, s)
	fmt.Fprintln(w)
}

// code prints the instructions alone.
func (l *listing) code(w io.Writer, s stream) {
	width := s.width
	if width == 0 {
		width = unlimited
	}
	switch {
	case len(l.before) == 0 && len(l.after) == 0:
	case len(l.after) == 0:
		l.stacked(w, s.paint, "", l.before)
	case l.beside(w, s.paint, width, spaced, false), l.beside(w, s.paint, width, packed, true):
	default:
		l.stacked(w, s.paint, "before", l.before)
		l.stacked(w, s.paint, "after", l.after)
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
func cells(all []rewriter.Line, style byteStyle, width int) [][]cell {
	var out [][]cell
	for _, in := range all {
		bytes, texts := style(in.Bytes), wrap(printable(in.Text), width)
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

// beside prints both sides next to each other, or nothing where they do not fit.
func (l *listing) beside(w io.Writer, c palette, width int, style byteStyle, wraps bool) bool {
	left, right := cells(l.before, style, unlimited), cells(l.after, style, unlimited)
	lw, rw := widths(left), widths(right)
	const margins = 2 + 2 + 1 + 3 + 1 // indent, gap, gap, " | ", gap
	room := width - margins - max(lw.vaddr, rw.vaddr) - lw.bytes - lw.text - rw.bytes
	if wraps && room < rw.text {
		right = cells(l.after, style, room)
		rw = widths(right)
	}
	if room < rw.text {
		return false
	}
	head := pad("", lw.vaddr, false) + "  " + pad("before", lw.bytes+1+lw.text, false) + "   after"
	fmt.Fprintln(w, c.dim("  "+head))
	for _, row := range l.rows(left, right) {
		b, a := row[0], row[1]
		at := b.vaddr
		if at == "" {
			at = a.vaddr
		}
		mark := "|"
		if !b.changed && !a.changed {
			mark = " "
		}
		old := pad(b.bytes, lw.bytes, false) + " " + pad(b.text, lw.text, false)
		after := pad(a.bytes, rw.bytes, false) + " " + a.text
		if mark == "|" {
			old, after = paintText(c.red, old), paintText(c.green, after)
		}
		line := fmt.Sprintf("  %s  %s %s %s", pad(at, lw.vaddr, true), old, mark, after)
		fmt.Fprintln(w, strings.TrimRight(line, " "))
	}
	return true
}

// paintText paints s but not the spaces behind it.
func paintText(paint func(string) string, s string) string {
	text := strings.TrimRight(s, " ")
	return paint(text) + s[len(text):]
}

// rows pairs the two sides by address: a line of one side that begins an instruction where
// the other side has none stands alone.
func (l *listing) rows(left, right [][]cell) [][2]cell {
	var out [][2]cell
	i, j := 0, 0
	for i < len(left) || j < len(right) {
		var b, a []cell
		switch {
		case j == len(right) || i < len(left) && l.before[i].Vaddr < l.after[j].Vaddr:
			b = left[i]
			i++
		case i == len(left) || l.after[j].Vaddr < l.before[i].Vaddr:
			a = right[j]
			j++
		default:
			b, a = left[i], right[j]
			i, j = i+1, j+1
		}
		for n := range max(len(b), len(a)) {
			var row [2]cell
			if n < len(b) {
				row[0] = b[n]
			}
			if n < len(a) {
				row[1] = a[n]
			}
			// A second line of bytes is of the same instruction: it keeps the mark.
			row[0].changed = len(b) > 0 && b[0].changed
			row[1].changed = len(a) > 0 && a[0].changed
			out = append(out, row)
		}
	}
	return out
}

// stacked prints one side as objdump does; changed lines are marked.
func (l *listing) stacked(w io.Writer, c palette, name string, side []rewriter.Line) {
	if name != "" {
		fmt.Fprintln(w, "  "+name+":")
	}
	all := cells(side, spaced, unlimited)
	width := widths(all)
	paint := c.red
	if name == "after" {
		paint = c.green
	}
	for _, lines := range all {
		for _, in := range lines {
			mark, p := " ", func(s string) string { return s }
			if in.changed {
				mark, p = "|", paint
			}
			line := pad(in.vaddr, width.vaddr, true) + "  " + pad(in.bytes, width.bytes, false) + " " + in.text
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

// listingOf is what is shown about one patch of a file; false where there is nothing.
func listingOf(f *contents.File, p *rewriter.Patch) (listing, bool) {
	if p.Listing == nil || p.Site.Verdict == rewriter.Benign {
		return listing{}, false
	}
	l := listing{title: fmt.Sprintf("%s: %v at %#x", f.Path, p.Site.Function, p.Site.Vaddr), before: p.Listing.Before, after: p.Listing.After}
	if p.Site.Symbol != "" {
		l.title += " in " + p.Site.Symbol
	}
	l.reasons = []string{fmt.Sprintf("%v: %s", p.Site.Verdict, p.Site.Reason)}
	if p.Reason != "" && p.Reason != p.Site.Reason {
		l.reasons = append(l.reasons, fmt.Sprintf("%v: %s", p.Form, p.Reason))
	}
	if p.Form == rewriter.Entry {
		l.reasons[len(l.reasons)-1] += "; the code after the jmp never runs"
	}
	return l, true
}

// writeExplanations writes the listings of all sites but the benign ones.
func writeExplanations(w io.Writer, s stream, f *contents.Findings) {
	for i := range f.Files {
		for n := range f.Files[i].Plan.Patches {
			if l, ok := listingOf(&f.Files[i], &f.Files[i].Plan.Patches[n]); ok {
				l.write(w, s)
			}
		}
		plan := f.Files[i].Plan
		writeLines(w, s, f.Files[i].Path+": what else changes", plan.Notes)
		writeLines(w, s, f.Files[i].Path+": system calls that the patched file adds", plan.Added)
	}
}

// writeLines writes lines below a head; nothing where there are none.
func writeLines(w io.Writer, s stream, head string, lines []string) {
	if len(lines) == 0 {
		return
	}
	fmt.Fprintln(w, s.paint.bold(printable(head)))
	for _, text := range lines {
		s.write(w, "  ", 2, text)
	}
	fmt.Fprintln(w)
}
