// --from-file of rebuild and scan: the options for a list of images, their results, and the table at the end.

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"vfix.dev/vfix/cmd/vfix/screen"
	"vfix.dev/vfix/images"
	"vfix.dev/vfix/images/lists"
	"vfix.dev/vfix/images/source"
	"vfix.dev/vfix/internal/hinterr"
	"vfix.dev/vfix/internal/textutil"
)

// batchOptions are the options that only a list has.
type batchOptions struct {
	fromFile, template, shard, report string
}

// listOnly are the options that mean nothing without a list.
var listOnly = []string{"dest-template", "shard", "report"}

// addList declares the options on a verb; line is what a line of the list has.
func (b *batchOptions) addList(cmd *cobra.Command, line string) {
	f := cmd.Flags()
	f.StringVar(&b.fromFile, "from-file", "", cmd.Name()+" all images in the file `LIST`, one per line: "+line+"; - reads stdin")
	f.StringVar(&b.shard, "shard", "", "with --from-file: process part `I/N` of the list, from 0/N to N-1/N")
	f.StringVar(&b.report, "report", "", "with --from-file: write a report to this `FILE`: .csv, .jsonl or .html")
}

// sources checks the arguments of a verb that takes up to most sources, or a list, and the options of a list.
func (b *batchOptions) sources(most int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if b.fromFile == "" {
			for _, name := range listOnly {
				if cmd.Flags().Changed(name) {
					return usagef("--%s works only with --from-file LIST", name)
				}
			}
			return arguments("SOURCE", 1, most)(cmd, args)
		}
		switch {
		case len(args) > 0:
			return usagef("--from-file takes no SOURCE: put %s into the list", args[0])
		case b.report != "" && !slices.Contains(lists.Endings, filepath.Ext(b.report)):
			return usagef("--report %s: want a name that ends in %s", b.report, strings.Join(lists.Endings, ", "))
		}
		return nil
	}
}

// part reads I/N.
func (b *batchOptions) part() (lists.Part, error) {
	if b.shard == "" {
		return lists.Part{}, nil
	}
	var p lists.Part
	if _, err := fmt.Sscanf(b.shard+"\n", "%d/%d\n", &p.Index, &p.Of); err != nil || p.Index < 0 || p.Index >= p.Of {
		return p, usagef("--shard %s: want I/N with I from 0 to N-1", b.shard)
	}
	return p, nil
}

// listVerb is a verb's work on a list.
type listVerb func(context.Context, []lists.Item, lists.Options) []lists.Image

// runBatch processes a list of images, and prints and reports the results. strict makes hazards findings.
func runBatch(ctx context.Context, b *batchOptions, w *workOptions, o images.RebuildOptions, strict bool, work listVerb, out *output, e engine) error {
	part, err := b.part()
	if err != nil {
		return err
	}
	items, err := e.readList(b.fromFile, part)
	if err == nil && b.report != "" {
		err = lists.Ready(b.report)
	}
	if err != nil {
		return err
	}
	o.ScanOptions, o.Version = w.read, buildVersion().Version
	finished := 0
	all := work(ctx, items, lists.Options{RebuildOptions: o, Template: b.template, Each: func(each lists.Image) {
		finished++
		for _, text := range each.Warnings {
			out.Warn("%s: %s", each.Source, text)
		}
		status := string(each.Status)
		if each.Err != nil {
			status += ": " + each.Err.Error()
		}
		out.Note("%d/%d %s: %s", finished, len(items), each.Source, status)
	}})
	for n := range all {
		if err := all[n].Err; err != nil {
			all[n].Error, all[n].Hint = screen.Safe(err.Error()), screen.Safe(screen.HintOf(err, issues))
		}
	}
	if ctx.Err() != nil {
		out.Note("%d of %s finished; run the command again to resume", finished, screen.Count(len(items), "image"))
	}
	sums, remains := batchSums(o.DryRun, all), batchRemains(out.verb, all, b.fromFile, strict)
	if b.report != "" {
		about := fmt.Sprintf("vfix %s, %s", version, time.Now().UTC().Format("2006-01-02 15:04 UTC"))
		r := lists.Report{Title: "vfix " + out.verb, About: about, Sums: sums, Next: hinterr.HintOf(remains), All: all}
		err = r.Write(b.report)
	}
	shown := out.show(o.DryRun, batchJSON(all), func(s screen.Stream) { writeBatch(s, sums, all) })
	return errors.Join(err, shown, context.Cause(ctx), remains)
}

// batchRemains is what remains of a list: failures are an error; call sites, hazards if strict, and what could not be
// examined are findings.
func batchRemains(verb string, all []lists.Image, list string, strict bool) error {
	const see = "run 'vfix scan IMAGE' to see them and the reasons" // the table has only numbers
	unread, hazards, left, sites := 0, 0, 0, 0
	for _, i := range all {
		if i.Incomplete {
			unread++
		}
		hazards += min(len(i.Hazards), 1)
		left, sites = left+min(i.LeftOver, 1), sites+i.LeftOver
	}
	count := func(n int) string { return screen.Count(n, "image") }
	if failed := len(lists.With(all, lists.Failed)); failed > 0 {
		return hinterr.With(fmt.Errorf("%d of %s failed", failed, count(len(all))), "the table gives the reasons; run the command again to retry")
	}
	var errs []error
	if unread > 0 {
		errs = append(errs, incompletef(see, "incomplete: %s with parts that could not be examined", count(unread)))
	}
	if hazards > 0 && strict {
		errs = append(errs, finding(seeHazards, "hazards: %d of %s", hazards, count(len(all))))
	}
	switch affected := len(lists.With(all, lists.Affected)); {
	case verb == "scan" && affected > 0:
		errs = append(errs, finding("run "+quoted(rebuildList(list)), "affected: %d of %s", affected, count(len(all))))
	case sites > 0:
		errs = append(errs, finding(see, "%s: %s could not be patched", count(left), screen.Count(sites, openSite)))
	}
	return errors.Join(errs...)
}

// rebuildList is the command that rebuilds the images of a list.
func rebuildList(list string) string {
	if list == source.Stdin {
		return "... | vfix rebuild --from-file -"
	}
	return "vfix rebuild --from-file " + textutil.QuotePath(list)
}

type jsonBatch struct {
	Images  []lists.Image        `json:"images"`
	Summary map[lists.Status]int `json:"summary"` // images by status
}

func batchJSON(all []lists.Image) jsonBatch {
	doc := jsonBatch{Images: all, Summary: map[lists.Status]int{}}
	for _, s := range lists.Statuses {
		doc.Summary[s] = len(lists.With(all, s))
	}
	return doc
}

// writeBatch writes the sums and the table.
func writeBatch(s screen.Stream, sums string, all []lists.Image) {
	var rows [][]string
	for _, row := range slices.SortedStableFunc(slices.Values(all), func(a, b lists.Image) int { return a.Line - b.Line }) {
		sites := fmt.Sprint(row.Patched + row.LeftOver)
		if row.Before || row.Status == lists.Failed || row.Status == lists.NotRun {
			sites = "-"
		}
		rows = append(rows, []string{string(row.Status), sites, row.Source, batchResult(row)})
	}
	fmt.Fprintf(s, "%s\n\n", sums)
	s.Table([]string{"STATUS", "SITES", "SOURCE", "RESULT"}, rows)
}

// batchResult is the last cell of a row: where the result is, or why it is missing, and what a reader must know.
func batchResult(row lists.Image) string {
	parts := []string{cmp.Or(row.Error, row.Reference)}
	if row.Status == lists.Incomplete {
		parts = row.Warnings
	}
	if row.Before {
		parts = append(parts, "by an earlier run")
	}
	if row.LeftOver > 0 && row.Reference != "" {
		parts = append(parts, screen.Count(row.LeftOver, openSite)+" left")
	}
	if row.Fixed > 0 {
		parts = append(parts, screen.Count(row.Fixed, "file")+" with a fix")
	}
	if len(row.Hazards) > 0 {
		parts = append(parts, "hazards: "+strings.Join(row.Hazards, ", "))
	}
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), "; ")
}

// batchSums says how many images had each result.
func batchSums(dry bool, all []lists.Image) string {
	var parts []string
	for _, s := range lists.Statuses {
		if n := len(lists.With(all, s)); n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, s))
		}
	}
	text := screen.Count(len(all), "image")
	if len(parts) > 0 { // a part of a list may be empty
		text += ": " + strings.Join(parts, ", ")
	}
	if dry {
		text += "; nothing was written"
	}
	return text
}
