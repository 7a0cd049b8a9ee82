// The output of --from-file: a line for each image that is finished, and the table at the end.

package main

import (
	"cmp"
	"fmt"
	"strings"

	"vfix.dev/vfix/cmd/vfix/screen"
	"vfix.dev/vfix/images/lists"
)

// listed prints the result of an image, and how many images are finished.
func (o *output) listed(n, all int, each lists.Image) {
	for _, text := range each.Warnings {
		o.Warn("%s: %s", each.Source, text)
	}
	what := string(each.Status)
	switch {
	case each.Before:
		what += ", by an earlier run: skipped"
	case each.Status == lists.Done:
		what += ": " + each.Reference
	case each.Status == lists.Affected:
		what += ": " + screen.Count(each.Patched+each.LeftOver, "call site")
	case each.Status == lists.Unaffected && each.Fixed > 0:
		what += ": " + screen.Count(each.Fixed, "file") + " to fix"
	case each.Status == lists.Failed:
		what += ": " + each.Error
	}
	o.Note("%d/%d %s: %s", n, all, each.Source, what)
}

func (o *output) batch(verb string, print printOptions, dry bool, sums string, all []lists.Image) error {
	if print.json() {
		doc := jsonBatch{Images: all, Summary: map[lists.Status]int{}}
		for _, s := range lists.Statuses {
			doc.Summary[s] = lists.Count(all, s)
		}
		return o.document(verb, dry, doc)
	}
	t := &screen.Table{Head: []string{"SOURCE", "STATUS", "SITES", "RESULT"}}
	for _, row := range all {
		t.Add(batchCells(row))
	}
	fmt.Fprintln(o.Stdout, sums)
	fmt.Fprintln(o.Stdout)
	t.Write(o.Stdout, o.Out)
	return nil
}

func batchCells(row lists.Image) []string {
	sites := "-"
	if row.Files > 0 || row.Patched > 0 {
		sites = fmt.Sprint(row.Patched)
	}
	result := row.Reference
	switch row.Status {
	case lists.Failed:
		result = row.Error
	case lists.Incomplete:
		result = strings.Join(row.Warnings, "; ")
	case lists.NotRun, lists.Unaffected, lists.Affected:
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
func batchSums(verb string, dry bool, all []lists.Image) string {
	words := map[lists.Status]string{lists.Done: "done"}
	if dry {
		words[lists.Done] = "would be done"
	}
	first := lists.Done
	if verb == "scan" {
		first = lists.Affected
	}
	parts := []string{fmt.Sprintf("%d %s", lists.Count(all, first), cmp.Or(words[first], string(first)))}
	for _, s := range []lists.Status{lists.Unaffected, lists.Incomplete, lists.Failed, lists.NotRun} {
		if n := lists.Count(all, s); n > 0 || s == lists.Unaffected || s == lists.Failed {
			parts = append(parts, fmt.Sprintf("%d %s", n, s))
		}
	}
	hazards, before := 0, 0
	for _, i := range all {
		if len(i.Hazards) > 0 {
			hazards++
		}
		if i.Before {
			before++
		}
	}
	text := screen.Count(len(all), "image") + ": " + strings.Join(parts, ", ")
	if hazards > 0 {
		text += fmt.Sprintf("; %d with hazards", hazards)
	}
	if before > 0 {
		text += fmt.Sprintf("; %d of them by an earlier run", before)
	}
	return text
}

type jsonBatch struct {
	Images  []lists.Image        `json:"images"`
	Summary map[lists.Status]int `json:"summary"`
}
