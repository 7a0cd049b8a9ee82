// Text for people: counts, sizes, and lines of a certain width.

package main

import (
	"fmt"
	"strings"

	"github.com/mattn/go-runewidth"
)

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
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

// doctorWidth is how wide texts are where stdout is no terminal.
const doctorWidth = 100

// hanging prints text behind a head of some columns, its further lines under the first.
func (o *output) hanging(head string, columns int, text string) {
	width := o.out.width
	if width == 0 {
		width = doctorWidth
	}
	for n, line := range wrap(printable(text), max(width-columns, minLast)) {
		if n == 1 {
			head = strings.Repeat(" ", columns)
		}
		fmt.Fprintln(o.stdout, strings.TrimRight(head+line, " "))
	}
}
