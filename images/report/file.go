// A report in a file, which grows row by row: what is written stays if the run is killed.

package report

import (
	"bufio"
	"encoding/csv"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"vfix.dev/vfix/images/outcome"
	"vfix.dev/vfix/internal/jsonobject"
)

// Endings are those of the names of reports, each for a format.
var Endings = []string{".csv", ".jsonl", ".html"}

// File is a report under way. nil stands for none.
type File struct {
	f *os.File
	w *bufio.Writer
	format
}

// Head is what a report begins with: the command, and when and by which vfix it was made. Tail is what it ends with: the counts
// in words, and what to do next, "" for none.
type (
	Head struct{ Title, About string }
	Tail struct{ Sums, Next string }
)

// format is how a report is written; nil for nothing.
type format struct {
	begin func(w io.Writer, h Head) error
	add   func(w io.Writer, row outcome.Image) error
	end   func(w io.Writer, t Tail) error
}

// formats are those of Endings: CSV (RFC 4180) with a header, a row a line, and a page.
var formats = map[string]format{
	".csv": {
		begin: func(w io.Writer, _ Head) error { return writeCSV(w, outcome.Columns()...) },
		add:   func(w io.Writer, row outcome.Image) error { return writeCSV(w, row.Cells()...) },
	},
	".jsonl": {add: func(w io.Writer, row outcome.Image) error {
		raw, err := jsonobject.Encode(row)
		if err != nil {
			return err
		}
		_, err = w.Write(append(raw, '\n'))
		return err
	}},
	".html": {
		begin: func(w io.Writer, h Head) error { return pages().ExecuteTemplate(w, "head", h) },
		add:   func(w io.Writer, row outcome.Image) error { return pages().ExecuteTemplate(w, "row", row) },
		end:   func(w io.Writer, t Tail) error { return pages().ExecuteTemplate(w, "tail", t) },
	},
}

// Create begins a report, in the format of the name's ending; "" makes none. The old content is gone.
func Create(name string, h Head) (*File, error) {
	if name == "" {
		return nil, nil
	}
	f, err := os.Create(name)
	if err != nil {
		return nil, fmt.Errorf("report: %w", err)
	}
	r := &File{f: f, w: bufio.NewWriter(f), format: formats[filepath.Ext(name)]}
	if r.begin == nil {
		return r, nil
	}
	return r, r.check(r.begin(r.w, h))
}

// check passes on what was written, and gives an error the file's name.
func (r *File) check(err error) error {
	if err == nil {
		err = r.w.Flush()
	}
	if err != nil {
		return fmt.Errorf("report %s: %w", r.f.Name(), err)
	}
	return nil
}

// Add appends a row; it is in the file when Add returns.
func (r *File) Add(row outcome.Image) error {
	if r == nil {
		return nil
	}
	return r.check(r.add(r.w, row))
}

// Close ends the report with its sums in words.
func (r *File) Close(t Tail) error {
	if r == nil {
		return nil
	}
	var err error
	if r.end != nil {
		err = r.check(r.end(r.w, t))
	}
	if cerr := r.f.Close(); err == nil {
		err = cerr
	}
	return err
}

func writeCSV(w io.Writer, cells ...string) error {
	for n, c := range cells {
		// Texts that a spreadsheet would take for a formula (OWASP, "CSV Injection").
		if c != "" && strings.ContainsRune("=+-@\t\r", rune(c[0])) {
			cells[n] = "'" + c
		}
	}
	c := csv.NewWriter(w)
	if err := c.Write(cells); err != nil {
		return err
	}
	c.Flush()
	return c.Error()
}
