// A table as text: columns, and texts that wrap.

package main

import (
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"

	"github.com/mattn/go-runewidth"
)

// grid is a table under way.
type grid struct {
	head  []string
	rows  [][]string
	from  iter.Seq[[]string] // where the rows come from, twice, if they are too many for rows
	right int                // the column aligned to the right; < 0: none
	drop  int                // a column that is not shown; 0: all are
}

// add appends a row; cells may come from untrusted files.
func (t *grid) add(row []string) {
	t.rows = append(t.rows, printableCells(row))
}

func printableCells(row []string) []string {
	clean := make([]string, len(row))
	for i, cell := range row {
		clean[i] = printable(cell)
	}
	return clean
}

// gap stands between columns. minLast is how narrow the last column, which wraps, may get
// before the first one gives up its width: its cells then have lines of their own, and
// indent is what stays of it.
const (
	gap     = "  "
	minLast = 24
	indent  = 4
)

// write prints the table. On a terminal a first cell that is too long gets a line of its
// own, and the last column wraps; elsewhere lines are as long as they are.
func (t *grid) write(w io.Writer, s stream) {
	head, rows := t.head, slices.Values(t.rows)
	if t.from != nil {
		rows = t.from
	}
	if t.drop > 0 {
		head = without(head, t.drop)
		all := rows
		rows = func(yield func([]string) bool) {
			all(func(r []string) bool { return yield(without(r, t.drop)) })
		}
	}
	right := t.right
	if t.drop > 0 && t.drop < right {
		right--
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
	if s.width > 0 {
		fit(widths, s.width)
	}
	line := func(cells []string, paint func(string) string) {
		if runewidth.StringWidth(cells[0]) > widths[0] {
			fmt.Fprintln(w, paint(cells[0]))
			cells = append([]string{""}, cells[1:]...)
		}
		tail := wrap(cells[last], widths[last])
		for n, end := range tail {
			if n > 0 {
				cells = make([]string, len(cells))
			}
			var b strings.Builder
			for i, cell := range cells[:last] {
				b.WriteString(pad(cell, widths[i], i == right) + gap)
			}
			fmt.Fprintln(w, strings.TrimRight(paint(b.String()+end), " "))
		}
	}
	line(head, s.paint.bold)
	for r := range rows {
		line(r, func(s string) string { return s })
	}
}

// fit narrows the last column, then the first, until a row is at most width columns.
func fit(widths []int, width int) {
	last := len(widths) - 1
	room := width - len(gap)*last // for the last column
	for _, n := range widths[:last] {
		room -= n
	}
	if room < min(widths[last], minLast) {
		room += widths[0] - indent
		widths[0] = indent
	}
	widths[last] = min(widths[last], max(room, minLast))
}

func without(row []string, i int) []string {
	return append(slices.Clone(row[:i]), row[i+1:]...)
}
