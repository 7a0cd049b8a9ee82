// --from-file of rebuild and scan: the options for a list of images, and their results.

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"vfix.dev/vfix/cmd/vfix/screen"
	"vfix.dev/vfix/images/batch"
	"vfix.dev/vfix/images/outcome"
	"vfix.dev/vfix/images/report"
	"vfix.dev/vfix/internal/hinterr"
	"vfix.dev/vfix/internal/quote"
)

// batchOptions are the options that only a list has.
type batchOptions struct {
	verb     string
	fromFile string
	template string
	shard    string
	report   string
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
	f.StringVar(&b.shard, "shard", "",
		"with --from-file: process part `I/N` of the list, from 0/N to N-1/N; N alone takes I from "+shardVariable)
	f.StringVar(&b.report, "report", "", "with --from-file: write a report to this `FILE` as images finish: .csv, .jsonl or .html")
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
	case b.report != "" && !slices.Contains(report.Endings, filepath.Ext(b.report)):
		return usagef(b.verb, "--report %s: want a name that ends in %s", b.report, strings.Join(report.Endings, ", "))
	}
	return nil
}

// parseShard reads I/N, or N with I from the environment.
func parseShard(verb, text string, getenv func(string) string) (batch.Part, error) {
	if text == "" {
		return batch.Part{}, nil
	}
	first, second, both := strings.Cut(text, "/")
	if !both {
		first, second = getenv(shardVariable), text
		if first == "" {
			return batch.Part{}, usagef(verb, "--shard %s: %s is not set: want I/N, as in 0/%s", text, shardVariable, text)
		}
	}
	n, err1 := strconv.Atoi(first)
	all, err2 := strconv.Atoi(second)
	if err1 != nil || err2 != nil || n < 0 || n >= all {
		return batch.Part{}, usagef(verb, "--shard %s/%s: want I/N with I from 0 to N-1", first, second)
	}
	return batch.Part{Index: n, Of: all}, nil
}

func (b *batchOptions) open(e engine) (*batch.List, error) {
	part, err := parseShard(b.verb, b.shard, os.Getenv)
	if err != nil {
		return nil, err
	}
	list, err := e.readList(b.fromFile, batch.ListOptions{Template: b.template, Part: part})
	if err != nil {
		return nil, err
	}
	if list.All() == 0 {
		list.Close()
		return nil, usagef(b.verb, "%s: no image in the list", b.fromFile)
	}
	return list, nil
}

// listVerb is a verb's work on a list.
type listVerb func(context.Context, *batch.List, batch.Options) (*batch.Batch, error)

// runBatch processes a list of images. o is the part that depends on the verb.
func runBatch(ctx context.Context, opts batchOptions, print printOptions, o batch.Options, work listVerb, out *output, e engine) (*batch.Batch, error) {
	list, err := opts.open(e)
	if err != nil {
		return nil, err
	}
	defer list.Close()
	rows := &report.Rows{}
	defer rows.Close()
	file, err := report.Create(opts.report, report.Head{Title: "vfix " + opts.verb, About: fmt.Sprintf("vfix %s, %s", version, time.Now().UTC().Format("2006-01-02 15:04 UTC"))})
	if err != nil {
		return nil, err
	}
	o.Jobs = 0 // of the files; --jobs counts images here
	var finished atomic.Int64
	o.Each = func(each outcome.Image) error {
		each = inWords(each)
		out.outcome(int(finished.Add(1)), list.Count(), each)
		return errors.Join(rows.Add(each), file.Add(each))
	}
	done, err := work(ctx, list, o)
	if done == nil {
		return nil, errors.Join(err, file.Close(report.Tail{}))
	}
	if done.Of[outcome.NotRun] > 0 {
		out.Note("%d of %s finished; run the command again to resume", done.All()-done.Of[outcome.NotRun], screen.Count(list.Count(), "image"))
	}
	sums := batchSums(opts.verb, o.DryRun, done)
	err = errors.Join(err, file.Close(report.Tail{Sums: sums, Next: opts.next(done)}))
	if printErr := out.batch(opts.verb, print, o.DryRun, list, done, rows); err == nil {
		err = printErr
	}
	return done, err
}

// next is the next step after a list is finished, or "".
func (b *batchOptions) next(done *batch.Batch) string {
	switch {
	case done.Of[outcome.Failed]+done.Of[outcome.NotRun] > 0:
		return "run the same command again: finished images are skipped"
	case b.verb == "scan" && done.Of[outcome.Affected] > 0:
		return "run " + quote.Words([]string{"vfix", "rebuild", "--from-file", b.fromFile})
	}
	return ""
}

func failures(b *batch.Batch) error {
	if failed := b.Of[outcome.Failed]; failed > 0 {
		return hinterr.With(fmt.Errorf("%d of %s failed", failed, screen.Count(b.All(), "image")),
			"the table gives the reasons; run the command again to retry")
	}
	return nil
}

// inWords has the error and its hint as text, and no nil lists.
func inWords(i outcome.Image) outcome.Image {
	if i.Err != nil {
		i.Error, i.Hint = screen.Safe(i.Err.Error()), screen.Safe(screen.HintOf(i.Err, issues))
	}
	i.Hazards, i.Warnings = append([]string{}, i.Hazards...), append([]string{}, i.Warnings...) // never null
	return i
}
