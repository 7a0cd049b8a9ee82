// A table as text: columns, and texts that wrap.

package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/mattn/go-runewidth"
)

// grid is a table under way.
type grid struct {
	head  []string
	rows  [][]string
	right int // the column aligned to the right; < 0: none
	drop  int // a column that is not shown; 0: all are
}

// add appends a row; cells may come from untrusted files.
func (t *grid) add(row []string) {
	clean := make([]string, len(row))
	for i, cell := range row {
		clean[i] = printable(cell)
	}
	t.rows = append(t.rows, clean)
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
	head, rows := t.head, t.rows
	if t.drop > 0 {
		head, rows = without(head, t.drop), nil
		for _, r := range t.rows {
			rows = append(rows, without(r, t.drop))
		}
	}
	right := t.right
	if t.drop > 0 && t.drop < right {
		right--
	}
	widths := make([]int, len(head))
	for _, r := range append([][]string{head}, rows...) {
		for i, cell := range r {
			widths[i] = max(widths[i], runewidth.StringWidth(cell))
		}
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
	for _, r := range rows {
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
