// What rebuild --from-file prints: a line on stderr when an image is finished, and in the
// end a table of all of them on stdout.

package main

import (
	"fmt"
	"strings"

	"vfix.dev/vfix/images/batch"
)

// outcome tells of one image, the n-th of all to be finished.
func (o *output) outcome(n, all int, each batch.Outcome) {
	for _, text := range each.Warnings {
		o.warn("%s: %s", each.Source, text)
	}
	what := string(each.Status)
	switch {
	case each.Before:
		what += ", by an earlier run: skipped"
	case each.Status == batch.StatusDone:
		what += ": " + each.Reference
	case each.Status == batch.StatusFailed:
		why, _ := whyFailed(each)
		what += ": " + why
	}
	o.note("%d/%d %s: %s", n, all, each.Source, what)
}

// batch prints the table, or JSON.
func (o *output) batch(opts RebuildOptions, b *batch.Batch) error {
	if opts.json() {
		return o.json(batchJSON(opts, b))
	}
	t := &grid{head: []string{"SOURCE", "STATUS", "SITES", "RESULT"}, right: 2}
	for _, each := range b.Outcomes {
		sites := "-"
		if each.Files > 0 || each.Patched > 0 {
			sites = fmt.Sprint(each.Patched)
		}
		result := each.Reference
		switch each.Status {
		case batch.StatusFailed:
			result, _ = whyFailed(each)
		case batch.StatusNotRun:
			result = "-"
		}
		if each.LeftOver > 0 {
			result += fmt.Sprintf(" (%s left)", count(each.LeftOver, openSite))
		}
		status := string(each.Status)
		if each.Before {
			status += " before"
		}
		t.add([]string{each.Source, status, sites, result})
	}
	t.write(o.stdout, o.out)
	fmt.Fprintln(o.stdout)
	fmt.Fprintln(o.stdout, batchSums(opts, b))
	return nil
}

// batchSums says in words how many images became what.
func batchSums(opts RebuildOptions, b *batch.Batch) string {
	before := 0
	for _, each := range b.Outcomes {
		if each.Before {
			before++
		}
	}
	done := "done"
	if opts.dryRun {
		done = "would be done"
	}
	parts := []string{fmt.Sprintf("%d %s", b.Count(batch.StatusDone), done)}
	for _, s := range []batch.Status{batch.StatusUnaffected, batch.StatusFailed, batch.StatusNotRun} {
		if n := b.Count(s); n > 0 || s != batch.StatusNotRun {
			parts = append(parts, fmt.Sprintf("%d %s", n, s))
		}
	}
	text := count(len(b.Outcomes), "image") + ": " + strings.Join(parts, ", ")
	if before > 0 {
		text += fmt.Sprintf("; %d of them by an earlier run", before)
	}
	return text
}
