// Text for people: counts, sizes, tables, and lines of a certain width.

package screen

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"unicode/utf8"

	"github.com/docker/go-units"
)

// Columns is the width of text that does not go to a terminal of another one.
const Columns = 80

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

func OrDash(s string) string { return cmp.Or(s, "-") }

// Pad adds spaces up to a width, at the left or at the right.
func Pad(s string, width int, left bool) string {
	space := strings.Repeat(" ", max(width-utf8.RuneCountInString(s), 0))
	if left {
		return space + s
	}
	return s + space
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
	width := max(s.Width-head, least)
	if s.Width == 0 || utf8.RuneCountInString(text) <= width {
		return text
	}
	return strings.Join(Wrap(text, width), "\n"+strings.Repeat(" ", head))
}

// Write prints text behind a head of some columns; on a terminal it wraps, its further lines under the first.
func (s Stream) Write(w io.Writer, head string, columns int, text string) {
	fmt.Fprintln(w, strings.TrimRight(head+s.hang(Printable(text), columns), " "))
}

// Headline prints what a result is about, the result in color, and more; on a terminal it wraps.
func (s Stream) Headline(w io.Writer, about, result string, paint func(string) string, more string) {
	line := s.hang(Printable(about+": "+result+more), len(Gap))
	line = strings.Replace(line, ": "+result, ": "+paint(result), 1) // unless it wraps in there
	fmt.Fprintln(w, line)
}

// Hanging prints text to stdout behind a head of some columns, its further lines under the first.
func (o *Output) Hanging(head string, columns int, text string) {
	o.Out.Write(o.Stdout, head, columns, text)
}

// Table is columns, and rows to print.
type Table struct {
	Head []string
	Most int // how many rows are printed, and how many more there are; 0: all
	rows [][]string
}

// Add appends a row; cells may come from untrusted files.
func (t *Table) Add(row []string) { t.rows = append(t.rows, row) }

// Empty reports whether there is no row to print.
func (t *Table) Empty() bool { return len(t.rows) == 0 }

// Write prints the table.
func (t *Table) Write(w io.Writer, s Stream) {
	rows, more := t.rows, 0
	if t.Most > 0 && len(rows) > t.Most {
		rows, more = rows[:t.Most], len(rows)-t.Most
	}
	lines := align(append([][]string{t.Head}, rows...))
	for i, line := range lines {
		if i == 0 {
			line = s.Paint.Bold(line)
		}
		fmt.Fprintln(w, line)
	}
	if more > 0 {
		fmt.Fprintf(w, "%d more; --format json lists all\n", more)
	}
}

// align puts the cells of rows below each other; a line for each row.
func align(rows [][]string) []string {
	var b bytes.Buffer
	w := tabwriter.NewWriter(&b, 0, 0, len(Gap), ' ', 0)
	for _, row := range rows {
		for i, cell := range row {
			if i > 0 {
				io.WriteString(w, "\t")
			}
			io.WriteString(w, Printable(cell))
		}
		io.WriteString(w, "\n")
	}
	w.Flush()
	lines := strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return lines
}
