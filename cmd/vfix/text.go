// Text for people: counts, sizes, and lines of a certain width.

package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/mattn/go-runewidth"
)

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	if strings.HasSuffix(what, "sh") {
		what += "e" // crash
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// humanSize writes a number of bytes for people, in powers of 1024 (IEC 80000-13).
func humanSize(n int64) string {
	if n < 1024 {
		return fmt.Sprintf("%d B", n)
	}
	f, unit := float64(n), ""
	for _, unit = range []string{"KiB", "MiB", "GiB", "TiB"} {
		if f /= 1024; f < 1024 {
			break
		}
	}
	return fmt.Sprintf("%.1f %s", f, unit)
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func pad(s string, width int, right bool) string {
	space := strings.Repeat(" ", max(width-runewidth.StringWidth(s), 0))
	if right {
		return space + s
	}
	return s + space
}

// wrap breaks s at spaces into lines of at most width columns, where that is possible.
func wrap(s string, width int) []string {
	lines := []string{""}
	for _, word := range strings.Fields(s) {
		end := len(lines) - 1
		switch {
		case lines[end] == "":
			lines[end] = word
		case runewidth.StringWidth(lines[end])+1+runewidth.StringWidth(word) <= width:
			lines[end] += " " + word
		default:
			lines = append(lines, word)
		}
	}
	return lines
}

// wrapLong is wrap for what may be columns of its own: what fits stays as it is.
func wrapLong(s string, width int) []string {
	if runewidth.StringWidth(s) <= width {
		return []string{s}
	}
	return wrap(s, width)
}

// plainWidth is how wide texts are where they do not go to a terminal.
const plainWidth = 100

// textWidth is how many columns a text may take.
func (s stream) textWidth() int {
	if s.width == 0 {
		return plainWidth
	}
	return s.width
}

// write prints text behind a head of some columns; on a terminal it wraps, its further lines under
// the first.
func (s stream) write(w io.Writer, head string, columns int, text string) {
	lines := []string{printable(text)}
	if s.width > 0 {
		lines = wrapLong(lines[0], max(s.width-columns, minLast))
	}
	for n, line := range lines {
		if n == 1 {
			head = strings.Repeat(" ", columns)
		}
		fmt.Fprintln(w, head+line)
	}
}

// hanging prints text behind a head of some columns, its further lines under the first.
func (o *output) hanging(head string, columns int, text string) {
	for n, line := range wrapLong(printable(text), max(o.out.textWidth()-columns, minLast)) {
		if n == 1 {
			head = strings.Repeat(" ", columns)
		}
		fmt.Fprintln(o.stdout, strings.TrimRight(head+line, " "))
	}
}
