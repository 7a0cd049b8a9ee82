// The output of --from-file: a line for each image that is finished, and the table at the end.

package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"iter"
	"strings"

	"vfix.dev/vfix/cmd/vfix/screen"
	"vfix.dev/vfix/images/batch"
	"vfix.dev/vfix/images/outcome"
	"vfix.dev/vfix/images/report"
)

// outcome prints the result of an image, and how many images are finished.
func (o *output) outcome(n, all int, each outcome.Image) {
	for _, text := range each.Warnings {
		o.Warn("%s: %s", each.Source, text)
	}
	what := string(each.Status)
	switch {
	case each.Before:
		what += ", by an earlier run: skipped"
	case each.Status == outcome.Done:
		what += ": " + each.Reference
	case each.Status == outcome.Affected:
		what += ": " + screen.Count(each.Patched+each.LeftOver, "call site")
	case each.Status == outcome.Unaffected && each.Fixed > 0:
		what += ": " + screen.Count(each.Fixed, "file") + " to fix"
	case each.Status == outcome.Failed:
		what += ": " + each.Error
	}
	o.Note("%d/%d %s: %s", n, all, each.Source, what)
}

func (o *output) batch(verb string, print printOptions, dry bool, list *batch.List, b *batch.Batch, rows *report.Rows) error {
	var failed error
	all := inOrder(list, rows, &failed)
	if print.json() {
		if err := o.batchJSON(verb, dry, b, all); err != nil {
			return err
		}
		return failed
	}
	t := &screen.Table{Head: []string{"SOURCE", "STATUS", "SITES", "RESULT"}}
	for row := range all {
		t.Add(batchCells(row))
	}
	fmt.Fprintln(o.Stdout, batchSums(verb, dry, b))
	fmt.Fprintln(o.Stdout)
	t.Write(o.Stdout, o.Out)
	return failed
}

// inOrder yields the rows of a list; an image without one gets a "not run" row. An error ends the sequence
// and is stored in failed.
func inOrder(list *batch.List, rows *report.Rows, failed *error) iter.Seq[outcome.Image] {
	return func(yield func(outcome.Image) bool) {
		c := rows.InOrder()
		*failed = list.Each(func(i outcome.Item) error {
			row, ok, err := c.Get(i.Line)
			if err != nil {
				return err
			}
			if !ok {
				row = inWords(outcome.Image{Item: i, Status: outcome.NotRun})
			}
			if !yield(row) {
				return screen.ErrBrokenPipe
			}
			return nil
		})
	}
}

func batchCells(row outcome.Image) []string {
	sites := "-"
	if row.Files > 0 || row.Patched > 0 {
		sites = fmt.Sprint(row.Patched)
	}
	result := row.Reference
	switch row.Status {
	case outcome.Failed:
		result = row.Error
	case outcome.Incomplete:
		result = strings.Join(row.Warnings, "; ")
	case outcome.NotRun, outcome.Unaffected, outcome.Affected:
		result = cmp.Or(result, "-")
	}
	if row.Fixed > 0 {
		deed := "fixed"
		if row.Reference == "" {
			deed = "to fix"
		}
		result += fmt.Sprintf(" (%s %s)", screen.Count(row.Fixed, "file"), deed)
	}
	if n := len(row.Hazards); n > 0 {
		result += fmt.Sprintf(" (%s: %s)", screen.Count(n, "hazard"), strings.Join(row.Hazards, ", "))
	}
	if row.LeftOver > 0 {
		result += fmt.Sprintf(" (%s left)", screen.Count(row.LeftOver, openSite))
	}
	status := string(row.Status)
	if row.Before {
		status += " before"
	}
	return []string{row.Source, status, sites, result}
}

// batchSums says how many images had each result.
func batchSums(verb string, dry bool, b *batch.Batch) string {
	done, n := "done", b.Of[outcome.Done]
	switch {
	case verb == "scan":
		done, n = string(outcome.Affected), b.Of[outcome.Affected]
	case dry:
		done = "would be done"
	}
	parts := []string{fmt.Sprintf("%d %s", n, done)}
	for _, s := range []outcome.Status{outcome.Unaffected, outcome.Incomplete, outcome.Failed, outcome.NotRun} {
		if n := b.Of[s]; n > 0 || s == outcome.Unaffected || s == outcome.Failed {
			parts = append(parts, fmt.Sprintf("%d %s", n, s))
		}
	}
	text := screen.Count(b.All(), "image") + ": " + strings.Join(parts, ", ")
	if b.Hazards > 0 {
		text += fmt.Sprintf("; %d with hazards", b.Hazards)
	}
	if b.Before > 0 {
		text += fmt.Sprintf("; %d of them by an earlier run", b.Before)
	}
	if b.Retries > 0 {
		text += fmt.Sprintf("; %s retried", screen.Count(b.Retries, "request"))
	}
	return text
}

type jsonBatch struct {
	Images  []outcome.Image `json:"images"`
	Summary jsonBatchCounts `json:"summary"`
}

type jsonBatchCounts struct {
	Done       int `json:"done"`
	Affected   int `json:"affected"`
	Unaffected int `json:"unaffected"`
	Incomplete int `json:"incomplete"`
	Failed     int `json:"failed"`
	NotRun     int `json:"not_run"`
	Retries    int `json:"retries"`
}

// batchJSON prints the document: the rows one by one, between the members before and after them.
func (o *output) batchJSON(verb string, dry bool, b *batch.Batch, rows func(func(outcome.Image) bool)) error {
	raw, err := documentOf(verb, dry, jsonBatch{Summary: jsonBatchCounts{
		Done: b.Of[outcome.Done], Affected: b.Of[outcome.Affected], Unaffected: b.Of[outcome.Unaffected],
		Incomplete: b.Of[outcome.Incomplete], Failed: b.Of[outcome.Failed], NotRun: b.Of[outcome.NotRun], Retries: b.Retries,
	}})
	if err != nil {
		return err
	}
	var indented bytes.Buffer
	_ = json.Indent(&indented, raw, "", "  ")
	before, behind, _ := bytes.Cut(bytes.Clone(indented.Bytes()), []byte("[]"))
	o.Stdout.Write(append(before, '['))
	between := "\n    "
	for row := range rows {
		o.Stdout.WriteString(between)
		between = ",\n    "
		raw, err := compact(row)
		if err != nil {
			return err
		}
		indented.Reset()
		_ = json.Indent(&indented, raw, "    ", "  ") // it has just been made
		o.Stdout.Write(indented.Bytes())
	}
	o.Stdout.WriteString("\n  ]")
	o.Stdout.Write(append(behind, '\n'))
	return nil
}
