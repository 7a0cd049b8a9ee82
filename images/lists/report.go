// Reports about a list: a spreadsheet, JSON lines, or a page.

package lists

import (
	_ "embed"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"vfix.dev/vfix/internal/atomicfile"
)

// Report is what a report says beside the images.
type Report struct {
	Title string  // such as "vfix rebuild"
	About string  // the version and the time
	Sums  string  // how many images had each result
	Next  string  // what to do next, "" for nothing
	All   []Image // in the order of the list
}

// Endings are the endings of the names of reports, which say the format.
var Endings = []string{".csv", ".jsonl", ".html"}

// Ready returns what prevents a report from being written to a file, before the images are processed.
func Ready(name string) error {
	f, err := atomicfile.Create(name)
	if err != nil {
		return fmt.Errorf("report: %w", err)
	}
	f.Discard()
	return nil
}

// Write writes a report to a file, whole or not at all.
func (r *Report) Write(name string) error {
	f, err := atomicfile.Create(name)
	if err != nil {
		return fmt.Errorf("report: %w", err)
	}
	defer f.Discard()
	switch filepath.Ext(name) {
	case ".csv":
		err = r.csv(f)
	case ".jsonl":
		err = r.lines(f)
	default:
		err = page().Execute(f, r)
	}
	if err == nil {
		err = f.Commit()
	}
	if err != nil {
		return fmt.Errorf("report %s: %w", name, err)
	}
	return nil
}

func (r *Report) lines(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	for _, i := range r.All {
		if err := e.Encode(i); err != nil {
			return err
		}
	}
	return nil
}

func (r *Report) csv(w io.Writer) error {
	c := csv.NewWriter(w)
	c.Write([]string{"line", "source", "dest", "status", "before", "reference", "digest", "base_digest", "files", "patched",
		"left_over", "fixed", "layer_size", "hazards", "warnings", "error", "hint"})
	for _, i := range r.All {
		cells := []string{fmt.Sprint(i.Line), i.Source, i.Dest, string(i.Status), fmt.Sprint(i.Before), i.Reference, i.Digest, i.BaseDigest,
			fmt.Sprint(i.Files), fmt.Sprint(i.Patched), fmt.Sprint(i.LeftOver), fmt.Sprint(i.Fixed), fmt.Sprint(i.LayerSize),
			strings.Join(i.Hazards, "; "), strings.Join(i.Warnings, "; "), i.Error, i.Hint}
		for n, text := range cells {
			// Texts that a spreadsheet would take for a formula (OWASP, "CSV Injection").
			if text != "" && strings.ContainsRune("=+-@\t\r", rune(text[0])) {
				cells[n] = "'" + text
			}
		}
		c.Write(cells)
	}
	c.Flush()
	return c.Error()
}

//go:embed page.html
var pageText string

var page = sync.OnceValue(func() *template.Template { return template.Must(template.New("").Parse(pageText)) })

// With returns the images that have a status.
func With(all []Image, s Status) []Image {
	return slices.DeleteFunc(slices.Clone(all), func(i Image) bool { return i.Status != s })
}

// Statuses are those of a page, in their order.
func (r *Report) Statuses() []Status { return Statuses }

// With returns the images of the report that have a status.
func (r *Report) With(s Status) []Image { return With(r.All, s) }
