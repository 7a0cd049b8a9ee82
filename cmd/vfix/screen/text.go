// Text for people: counts, sizes, tables, and lines of a certain width.

package screen

import (
	"bytes"
	"fmt"
	"strings"
	"text/tabwriter"
	"unicode/utf8"

	"github.com/docker/go-units"
)

// columns is the width of a terminal that does not report its own.
const columns = 80

// Gap is between columns.
const Gap = "  "

// Count is a number of things: "1 file", "2 files".
func Count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	if strings.HasSuffix(what, "sh") {
		what += "e" // crash
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

// Wrap breaks s at spaces into lines of at most width columns, if that is possible.
func Wrap(s string, width int) []string {
	lines := []string{""}
	for _, word := range strings.Fields(s) {
		end := len(lines) - 1
		switch {
		case lines[end] == "":
			lines[end] = word
		case utf8.RuneCountInString(lines[end])+1+utf8.RuneCountInString(word) <= width:
			lines[end] += " " + word
		default:
			lines = append(lines, word)
		}
	}
	return lines
}

// hang wraps a text for a terminal behind a head of some columns, its further lines under the first. A text that fits
// is not changed: it may be columns of its own.
func (s Stream) hang(text string, head int) string {
	const least = 24 // columns, on the narrowest terminal
	width := max(s.width-head, least)
	if s.width == 0 || utf8.RuneCountInString(text) <= width {
		return text
	}
	return strings.Join(Wrap(text, width), "\n"+strings.Repeat(" ", head))
}

// Print prints a text behind a label in color, if paint is not nil. On a terminal it wraps, its further lines under the
// first.
func (s Stream) Print(label string, paint func(string) string, text string) {
	text = s.hang(Printable(text), utf8.RuneCountInString(label))
	if paint != nil {
		label = paint(label)
	}
	fmt.Fprintln(s, strings.TrimRight(label+text, " "))
}

// Headline prints what a result is about, the result in color, and more; on a terminal it wraps.
func (s Stream) Headline(about, result string, paint func(string) string, more string) {
	line := s.hang(Printable(about+": "+result+more), len(Gap))
	line = strings.Replace(line, ": "+result, ": "+paint(result), 1) // unless it wraps in there
	fmt.Fprintln(s, line)
}

// Command prints a command to type, on a line that never wraps, so that it can be copied.
func (s Stream) Command(command string) { fmt.Fprintln(s, Gap+s.Paint.Bold(Printable(command))) }

// Few is how many lines of a kind are printed; of more, the first ones and their number.
const Few = 10

// List prints few lines behind a label, and how many more there are.
func (s Stream) List(label string, lines []string) {
	for _, line := range lines[:min(len(lines), Few)] {
		s.Print(label, nil, line)
	}
	s.more(label, len(lines))
}

// more says how many of n lines are not printed, if some are not.
func (s Stream) more(label string, n int) {
	if n > Few {
		fmt.Fprintf(s, "%s%d more; --format json lists all\n", label, n-Few)
	}
}

// FewRows prints a table with the first rows, and how many more there are.
func (s Stream) FewRows(head []string, rows [][]string) {
	s.Table(head, rows[:min(len(rows), Few)])
	s.more("", len(rows))
}

// Table prints rows with their cells below each other. Cells may come from untrusted files.
func (s Stream) Table(head []string, rows [][]string) {
	var b bytes.Buffer
	w := tabwriter.NewWriter(&b, 0, 0, len(Gap), ' ', 0)
	for _, row := range append([][]string{head}, rows...) {
		cells := make([]string, len(row))
		for i, cell := range row {
			cells[i] = Printable(cell)
		}
		fmt.Fprintln(w, strings.Join(cells, "\t"))
	}
	w.Flush()
	first := true
	for line := range strings.Lines(b.String()) {
		if line = strings.TrimRight(line, " \n"); first {
			line = s.Paint.Bold(line)
		}
		first = false
		fmt.Fprintln(s, line)
	}
}
