// A table as text: columns, and texts that wrap.

package screen

import (
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"

	"github.com/mattn/go-runewidth"
)

// Table is columns, and rows to print.
type Table struct {
	Head  []string
	rows  [][]string
	From  iter.Seq[[]string] // the source of the rows, called twice, if there are too many for rows
	Right int                // the column aligned to the right; < 0: none
}

// Add appends a row; cells may come from untrusted files.
func (t *Table) Add(row []string) {
	t.rows = append(t.rows, printableCells(row))
}

// Drop takes out a column, left of the one aligned to the right.
func (t *Table) Drop(i int) {
	t.Head, t.Right = slices.Delete(t.Head, i, i+1), t.Right-1
	for n, row := range t.rows {
		t.rows[n] = slices.Delete(row, i, i+1)
	}
}

// Empty reports whether there is no row to print.
func (t *Table) Empty() bool { return len(t.rows) == 0 }

func printableCells(row []string) []string {
	clean := make([]string, len(row))
	for i, cell := range row {
		clean[i] = Printable(cell)
	}
	return clean
}

// Gap is between columns. MinLast is the minimum width of the last column, which wraps. Below it the first
// column gives up its width: its cells then get separate lines, and only indent is left of it.
const (
	Gap     = "  "
	MinLast = 24
	indent  = 4
)

// Write prints the table. On a terminal a first cell that is too long gets a line of its
// own, and the last column wraps; elsewhere lines are as long as they are.
func (t *Table) Write(w io.Writer, s Stream) {
	head, rows := t.Head, slices.Values(t.rows)
	if t.From != nil {
		rows = func(yield func([]string) bool) {
			t.From(func(r []string) bool { return yield(printableCells(r)) })
		}
	}
	widths := make([]int, len(head))
	widen := func(r []string) {
		for i, cell := range r {
			widths[i] = max(widths[i], runewidth.StringWidth(cell))
		}
	}
	widen(head)
	for r := range rows {
		widen(r)
	}
	last := len(head) - 1
	if s.Width > 0 && !fit(widths, s.Width) {
		stacked(w, s, head, rows)
		return
	}
	line := func(cells []string, paint func(string) string) {
		if runewidth.StringWidth(cells[0]) > widths[0] {
			fmt.Fprintln(w, paint(cells[0]))
			cells = append([]string{""}, cells[1:]...)
		}
		tail := Wrap(cells[last], widths[last])
		for n, end := range tail {
			if n > 0 {
				cells = make([]string, len(cells))
			}
			var b strings.Builder
			for i, cell := range cells[:last] {
				b.WriteString(Pad(cell, widths[i], i == t.Right) + Gap)
			}
			fmt.Fprintln(w, strings.TrimRight(paint(b.String()+end), " "))
		}
	}
	line(head, s.Paint.Bold)
	for r := range rows {
		line(r, func(s string) string { return s })
	}
}

// fit narrows the last column, then the first, until a row is at most width columns; false if it is not.
func fit(widths []int, width int) bool {
	last := len(widths) - 1
	room := width - len(Gap)*last // for the last column
	for _, n := range widths[:last] {
		room -= n
	}
	if room < min(widths[last], MinLast) {
		room += widths[0] - indent
		widths[0] = indent
	}
	fits := room >= min(widths[last], MinLast)
	widths[last] = min(widths[last], max(room, MinLast))
	return fits
}

// stacked prints each row as a text on a terminal that is too narrow for columns: the first cell, and below it the others
// behind their headings.
func stacked(w io.Writer, s Stream, head []string, rows iter.Seq[[]string]) {
	for r := range rows {
		if r[0] != "" {
			s.Say(w, s.Paint.Bold(r[0]))
		}
		var cells []string
		for i, cell := range r[1:] {
			if cell != "" {
				cells = append(cells, head[i+1]+" "+cell)
			}
		}
		s.Write(w, strings.Repeat(" ", indent), indent, strings.Join(cells, "; "))
	}
}
