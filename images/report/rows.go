// Rows: what became of each image of a list, kept in a temporary file until it is printed in the
// order of the list. In memory each row takes twelve bytes.

package report

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"

	"vfix.dev/vfix/images/blob"
	"vfix.dev/vfix/images/outcome"
	"vfix.dev/vfix/internal/jsonobject"
)

// Rows are those of one run. The zero value is ready for use.
type Rows struct {
	f   *os.File
	end int64
	// lines are the rows' lines in the list, at their offsets in f, in the order of Add.
	lines []uint32
	at    []uint64
}

// Close removes the temporary file.
func (r *Rows) Close() { blob.RemoveTemp(r.f) }

// Add keeps a row.
func (r *Rows) Add(row outcome.Image) error {
	if r.f == nil {
		var err error
		if r.f, err = blob.TempFile(); err != nil {
			return err
		}
	}
	raw, err := jsonobject.Encode(row)
	if err != nil {
		return err
	}
	raw = append(raw, '\n')
	if _, err := r.f.WriteAt(raw, r.end); err != nil {
		return fmt.Errorf("temporary file: %w", err)
	}
	r.lines, r.at = append(r.lines, uint32(row.Line)), append(r.at, uint64(r.end))
	r.end += int64(len(raw))
	return nil
}

// InOrder gives the rows by their lines: Get has that of a line, and is called for ascending ones.
func (r *Rows) InOrder() *Cursor {
	order := make([]uint32, len(r.lines))
	for n := range order {
		order[n] = uint32(n)
	}
	slices.SortFunc(order, func(a, b uint32) int { return int(r.lines[a]) - int(r.lines[b]) })
	return &Cursor{rows: r, order: order}
}

// Cursor reads rows in the order of their lines.
type Cursor struct {
	rows  *Rows
	order []uint32
}

// Get gives the row of a line; false: it has none.
func (c *Cursor) Get(line int) (row outcome.Image, ok bool, err error) {
	for len(c.order) > 0 && int(c.rows.lines[c.order[0]]) < line {
		c.order = c.order[1:]
	}
	if len(c.order) == 0 || int(c.rows.lines[c.order[0]]) != line {
		return row, false, nil
	}
	at := int64(c.rows.at[c.order[0]])
	in := bufio.NewReader(io.NewSectionReader(c.rows.f, at, c.rows.end-at))
	raw, err := in.ReadBytes('\n')
	if err != nil {
		return row, false, fmt.Errorf("temporary file: %w", err)
	}
	return row, true, json.Unmarshal(raw, &row)
}
