// Text for people: counts, sizes, and lines of a certain width.

package screen

import (
	"cmp"
	"fmt"
	"io"
	"regexp"
	"strings"
	"sync"

	"github.com/docker/go-units"
	"github.com/mattn/go-runewidth"
)

func Count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	if strings.HasSuffix(what, "sh") {
		what += "e" // crash
	}
	if stem, ok := strings.CutSuffix(what, "ry"); ok {
		what = stem + "rie" // entry
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// Size writes a number of bytes for people, in powers of 1024 (IEC 80000-13).
func Size(n int64) string {
	if n < 1024 {
		return fmt.Sprintf("%d B", n)
	}
	return units.CustomSize("%.1f %s", float64(n), 1024, []string{"B", "KiB", "MiB", "GiB", "TiB"})
}

func OrDash(s string) string {
	return cmp.Or(s, "-")
}

func Pad(s string, width int, right bool) string {
	space := strings.Repeat(" ", max(width-runewidth.StringWidth(s), 0))
	if right {
		return space + s
	}
	return s + space
}

// escapes are those of a Palette.
var escapes = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile("\x1b\\[[0-9;]*m") })

// columns is how many columns a text takes, whatever its colors.
func columns(s string) int {
	if strings.Contains(s, "\x1b") {
		s = escapes().ReplaceAllString(s, "")
	}
	return runewidth.StringWidth(s)
}

// Wrap breaks s at spaces into lines of at most width columns, if that is possible.
func Wrap(s string, width int) []string {
	lines := []string{""}
	for _, word := range strings.Fields(s) {
		end := len(lines) - 1
		switch {
		case lines[end] == "":
			lines[end] = word
		case columns(lines[end])+1+columns(word) <= width:
			lines[end] += " " + word
		default:
			lines = append(lines, word)
		}
	}
	return lines
}

// plainWidth is the width of texts that do not go to a terminal.
const plainWidth = 100

// TextWidth is how many columns a text may take.
func (s Stream) TextWidth() int {
	return cmp.Or(s.Width, plainWidth)
}

// Say prints a line of text; on a terminal it wraps.
func (s Stream) Say(w io.Writer, line string) {
	if s.Width > 0 {
		line = hang(line, s.Width, 0)
	}
	fmt.Fprintln(w, line)
}

// Write prints text after a head of some columns; on a terminal it wraps, its further lines under
// the first.
func (s Stream) Write(w io.Writer, head string, columns int, text string) {
	text = Printable(text)
	if s.Width > 0 {
		text = hang(text, s.Width, columns)
	}
	fmt.Fprintln(w, head+text)
}

// hang wraps a text after a head of some columns, its further lines under the first. A text that fits stays as it
// is: it may be columns of its own.
func hang(text string, width, head int) string {
	if head > 0 {
		width = max(width-head, MinLast)
	}
	if columns(text) <= width {
		return text
	}
	return strings.Join(Wrap(text, width), "\n"+strings.Repeat(" ", head))
}

// Hanging prints text after a head of some columns, its further lines under the first.
func (o *Output) Hanging(head string, columns int, text string) {
	fmt.Fprintln(o.Stdout, strings.TrimRight(head+hang(Printable(text), o.Out.TextWidth(), columns), " "))
}
