// What --from-file prints: a line for each image that is finished, and the table at the end.

package main

import (
	"fmt"
	"iter"
	"strings"

	"vfix.dev/vfix/cmd/vfix/screen"
	"vfix.dev/vfix/cmd/vfix/tables"
	"vfix.dev/vfix/images/batch"
	"vfix.dev/vfix/images/report"
)

// outcome prints what became of an image, with how many of all images are finished.
func (o *output) outcome(n, all int, each batch.Outcome) {
	for _, text := range each.Warnings {
		o.Warn("%s: %s", each.Source, text)
	}
	what := string(each.Status)
	switch {
	case each.Before:
		what += ", by an earlier run: skipped"
	case each.Status == batch.StatusDone:
		what += ": " + each.Reference
	case each.Status == batch.StatusAffected:
		what += ": " + screen.Count(each.Patched+each.LeftOver, "call site")
	case each.Status == batch.StatusUnaffected && each.Repaired > 0:
		what += ": " + screen.Count(each.Repaired, "file") + " to fix"
	case each.Status == batch.StatusFailed:
		why, _ := whyFailed(each)
		what += ": " + why
	}
	o.Note("%d/%d %s: %s", n, all, each.Source, what)
}

// batch prints the table, or JSON.
func (o *output) batch(verb string, print printOptions, dry bool, list *batch.List, b *batch.Batch, rows *report.Rows) error {
	var failed error
	all := inOrder(list, rows, &failed)
	if print.json() {
		if err := o.batchJSON(verb, dry, b, all); err != nil {
			return err
		}
		return failed
	}
	t := &screen.Table{Head: []string{"SOURCE", "STATUS", "SITES", "RESULT"}, Right: 2}
	t.From = func(yield func([]string) bool) {
		all(func(row report.Row) bool { return yield(batchCells(row)) })
	}
	t.Write(o.Stdout, o.Out)
	fmt.Fprintln(o.Stdout)
	fmt.Fprintln(o.Stdout, batchSums(verb, dry, b))
	return failed
}

// inOrder gives the rows of a list, and of an image that has none that it was not run. An error ends
// them and is in failed.
func inOrder(list *batch.List, rows *report.Rows, failed *error) iter.Seq[report.Row] {
	return func(yield func(report.Row) bool) {
		c := rows.InOrder()
		*failed = list.Each(func(i batch.Item) error {
			row, ok, err := c.Get(i.Line)
			if err != nil {
				return err
			}
			if !ok {
				row = reportRow(batch.Outcome{Item: i, Status: batch.StatusNotRun})
			}
			if !yield(row) {
				return screen.ErrBrokenPipe
			}
			return nil
		})
	}
}

// batchCells are the cells of an image in the table.
func batchCells(row report.Row) []string {
	sites := "-"
	if row.Files > 0 || row.Patched > 0 {
		sites = fmt.Sprint(row.Patched)
	}
	result := row.Reference
	switch batch.Status(row.Status) {
	case batch.StatusFailed:
		result = row.Error
	case batch.StatusIncomplete:
		result = strings.Join(row.Warnings, "; ")
	case batch.StatusNotRun, batch.StatusUnaffected, batch.StatusAffected:
		if result == "" {
			result = "-"
		}
	}
	if row.Repaired > 0 {
		deed := "fixed"
		if row.Reference == "" {
			deed = "to fix"
		}
		result += fmt.Sprintf(" (%s %s)", screen.Count(row.Repaired, "file"), deed)
	}
	if n := len(row.Hazards); n > 0 {
		result += fmt.Sprintf(" (%s: %s)", screen.Count(n, "hazard"), strings.Join(row.Hazards, ", "))
	}
	if row.LeftOver > 0 {
		result += fmt.Sprintf(" (%s left)", screen.Count(row.LeftOver, tables.OpenSite))
	}
	status := row.Status
	if row.Before {
		status += " before"
	}
	return []string{row.Source, status, sites, result}
}

// reportRow is an outcome as it is printed.
func reportRow(o batch.Outcome) report.Row {
	why, hint := whyFailed(o)
	return report.Row{
		Line: o.Line, Source: o.Source, Dest: o.Dest, Status: string(o.Status), Before: o.Before,
		Reference: o.Reference, Digest: o.Digest, BaseDigest: o.BaseDigest,
		Files: o.Files, Patched: o.Patched, LeftOver: o.LeftOver, Repaired: o.Repaired, LayerSize: o.LayerSize,
		Hazards: list(o.Hazards), Warnings: list(o.Warnings), Error: why, Hint: hint,
	}
}

// batchSums says in words how many images became what.
func batchSums(verb string, dry bool, b *batch.Batch) string {
	done, n := "done", b.Of[batch.StatusDone]
	switch {
	case verb == "scan":
		done, n = string(batch.StatusAffected), b.Of[batch.StatusAffected]
	case dry:
		done = "would be done"
	}
	parts := []string{fmt.Sprintf("%d %s", n, done)}
	for _, s := range []batch.Status{batch.StatusUnaffected, batch.StatusIncomplete, batch.StatusFailed, batch.StatusNotRun} {
		if n := b.Of[s]; n > 0 || s == batch.StatusUnaffected || s == batch.StatusFailed {
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
