// --from-file of rebuild and scan: the options for a list of images, their results, and the table at the end.

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"vfix.dev/vfix/cmd/vfix/screen"
	"vfix.dev/vfix/images/lists"
	"vfix.dev/vfix/internal/hinterr"
	"vfix.dev/vfix/internal/textutil"
)

// batchOptions are the options that only a list has.
type batchOptions struct {
	verb                              string
	fromFile, template, shard, report string
}

// listOnly are the options that mean nothing without a list.
var listOnly = []string{"dest-template", "shard", "report"}

// shardVariable says which part of an Indexed Job a pod is (Kubernetes, "Job", completion mode).
const shardVariable = "JOB_COMPLETION_INDEX"

// add declares the options on cmd; what says what is done to each image.
func (b *batchOptions) add(cmd *cobra.Command, what, line string) {
	b.verb = cmd.Name()
	f := cmd.Flags()
	f.StringVar(&b.fromFile, "from-file", "", what+" all images in the file `LIST`, one per line: "+line+"; - reads stdin")
	f.StringVar(&b.shard, "shard", "", "with --from-file: process part `I/N` of the list, from 0/N to N-1/N; N alone takes I from "+shardVariable)
	f.StringVar(&b.report, "report", "", "with --from-file: write a report to this `FILE`: .csv, .jsonl or .html")
}

// check reports errors in the list options that all verbs share.
func (b *batchOptions) check(cmd *cobra.Command, args []string) error {
	if b.fromFile == "" {
		for _, name := range listOnly {
			if cmd.Flags().Changed(name) {
				return usagef(b.verb, "--%s works only with --from-file LIST", name)
			}
		}
		return nil
	}
	switch {
	case len(args) > 0:
		return usagef(b.verb, "--from-file takes no SOURCE: put %s into the list", args[0])
	case b.report != "" && !slices.Contains(lists.Endings, filepath.Ext(b.report)):
		return usagef(b.verb, "--report %s: want a name that ends in %s", b.report, strings.Join(lists.Endings, ", "))
	}
	return nil
}

// part reads I/N, or N with I from the environment.
func (b *batchOptions) part() (lists.Part, error) {
	if b.shard == "" {
		return lists.Part{}, nil
	}
	first, second, both := strings.Cut(b.shard, "/")
	if !both {
		first, second = os.Getenv(shardVariable), b.shard
	}
	n, err1 := strconv.Atoi(first)
	all, err2 := strconv.Atoi(second)
	if err1 != nil || err2 != nil || n < 0 || n >= all {
		return lists.Part{}, usagef(b.verb, "--shard %s: want I/N with I from 0 to N-1, or N with I in %s", b.shard, shardVariable)
	}
	return lists.Part{Index: n, Of: all}, nil
}

// listVerb is a verb's work on a list.
type listVerb func(context.Context, []lists.Item, lists.Options) []lists.Image

// runBatch processes a list of images, and prints and reports the results. o is the part that depends on the verb.
func runBatch(ctx context.Context, opts batchOptions, print printOptions, o lists.Options, work listVerb, out *output, e engine) ([]lists.Image, error) {
	part, err := opts.part()
	if err != nil {
		return nil, err
	}
	items, err := e.readList(opts.fromFile, part)
	if err != nil {
		return nil, err
	}
	finished := 0
	o.Template, o.AtOnce, o.Jobs = opts.template, o.Jobs, 0 // --jobs counts images here
	o.Each = func(each lists.Image) {
		finished++
		for _, text := range each.Warnings {
			out.Warn("%s: %s", each.Source, text)
		}
		status := string(each.Status)
		if each.Err != nil {
			status += ": " + each.Err.Error()
		}
		out.Note("%d/%d %s: %s", finished, len(items), each.Source, status)
	}
	all := work(ctx, items, o)
	for n := range all {
		if err := all[n].Err; err != nil {
			all[n].Error, all[n].Hint = screen.Safe(err.Error()), screen.Safe(screen.HintOf(err, issues))
		}
	}
	if ctx.Err() != nil {
		out.Note("%d of %s finished; run the command again to resume", finished, screen.Count(len(items), "image"))
	}
	sums := batchSums(opts.verb, o.DryRun, all)
	if opts.report != "" {
		about := fmt.Sprintf("vfix %s, %s", version, time.Now().UTC().Format("2006-01-02 15:04 UTC"))
		r := lists.Report{Title: "vfix " + opts.verb, About: about, Sums: sums, Next: opts.next(all), All: all}
		err = r.Write(opts.report)
	}
	return all, errors.Join(err, out.batch(opts.verb, print, o.DryRun, sums, all), context.Cause(ctx))
}

// next is the next step after a list is finished, or "".
func (b *batchOptions) next(all []lists.Image) string {
	switch {
	case lists.Count(all, lists.Failed)+lists.Count(all, lists.NotRun) > 0:
		return "run the same command again: finished images are skipped"
	case b.verb == "scan" && lists.Count(all, lists.Affected) > 0:
		return "run " + textutil.QuoteWords([]string{"vfix", "rebuild", "--from-file", b.fromFile})
	}
	return ""
}

func failures(all []lists.Image) error {
	if failed := lists.Count(all, lists.Failed); failed > 0 {
		return hinterr.With(fmt.Errorf("%d of %s failed", failed, screen.Count(len(all), "image")),
			"the table gives the reasons; run the command again to retry")
	}
	return nil
}

type jsonBatch struct {
	Images  []lists.Image        `json:"images"`
	Summary map[lists.Status]int `json:"summary"` // images by status
}

// batch prints the sums and the table.
func (o *output) batch(verb string, print printOptions, dry bool, sums string, all []lists.Image) error {
	if print.json() {
		doc := jsonBatch{Images: all, Summary: map[lists.Status]int{}}
		for _, s := range lists.Statuses {
			doc.Summary[s] = lists.Count(all, s)
		}
		return o.document(verb, dry, doc)
	}
	t := &screen.Table{Head: []string{"STATUS", "SITES", "SOURCE", "RESULT"}}
	for _, row := range all {
		sites := fmt.Sprint(row.Patched + row.LeftOver)
		if row.Before || row.Status == lists.Failed || row.Status == lists.NotRun {
			sites = "-"
		}
		t.Add([]string{string(row.Status), sites, row.Source, batchResult(row)})
	}
	fmt.Fprintf(o.Stdout, "%s\n\n", sums)
	t.Write(o.Stdout, o.Out)
	return nil
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
func batchSums(verb string, dry bool, all []lists.Image) string {
	var parts []string
	for _, s := range lists.Statuses {
		if n := lists.Count(all, s); n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, s))
		}
	}
	text := screen.Count(len(all), "image") + ": " + strings.Join(parts, ", ")
	if dry {
		text += "; nothing was written"
	}
	return text
}
