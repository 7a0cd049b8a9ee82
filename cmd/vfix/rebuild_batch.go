// rebuild --from-file: the options for a list of images, and what becomes of them.

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"vfix.dev/vfix/images"
	"vfix.dev/vfix/images/batch"
	"vfix.dev/vfix/images/report"
)

// batchOptions are the choices that only a list has.
type batchOptions struct {
	fromFile string
	template string
	state    string
	shard    string
	failFast bool
}

// listOnly are the options that mean nothing without a list.
var listOnly = []string{"dest-template", "state", "shard", "fail-fast"}

// shardVariable says which part of an Indexed Job a pod is (Kubernetes, "Job", completion mode).
const shardVariable = "JOB_COMPLETION_INDEX"

func (b *batchOptions) add(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&b.fromFile, "from-file", "", "rebuild all images in the file `LIST`, one per line: SOURCE or SOURCE DEST; - reads stdin")
	f.StringVar(&b.template, "dest-template", "",
		"with --from-file: write each image to the DEST that this `TEMPLATE` gives, with {registry}, {repository}, {name} and {tag} filled in")
	f.StringVar(&b.state, "state", "", "with --from-file: record finished images in this `FILE`, or in a file per part in this existing directory, and skip them in the next run")
	f.StringVar(&b.shard, "shard", "",
		"with --from-file: process part `I/N` of the list, from 0/N to N-1/N; N alone takes I from "+shardVariable)
	f.BoolVar(&b.failFast, "fail-fast", false, "with --from-file: stop at the first image that fails")
}

// checkBatch says what is wrong with the options of a list.
func (o *RebuildOptions) checkBatch(cmd *cobra.Command, args []string) error {
	if o.fromFile == "" {
		for _, name := range listOnly {
			if cmd.Flags().Changed(name) {
				return usagef("rebuild", "--%s works only with --from-file LIST", name)
			}
		}
		return nil
	}
	switch {
	case len(args) > 0:
		return usagef("rebuild", "--from-file takes no SOURCE: put %s into the list", args[0])
	case o.dest != "":
		return usagef("rebuild", "-o is for one image: with --from-file use --dest-template, or a DEST in each line")
	case o.tag != "":
		return usagef("rebuild", "-t names one image: with --from-file use --tag-suffix, --dest-template, or a DEST in each line")
	case o.template != "" && o.suffixSet:
		return usagef("rebuild", "--dest-template gives the whole name and --tag-suffix its ending: use one of them")
	case o.provenance != images.ProvenanceAuto && o.provenance != images.ProvenanceNone:
		return usagef("rebuild", "--provenance %s: cannot write one file for many images: want auto or none", o.provenance)
	}
	if o.template != "" {
		if err := batch.CheckTemplate(o.template); err != nil {
			return usagef("rebuild", "--dest-template: %v", err)
		}
	}
	return nil
}

// parseShard reads I/N, or N with I from the environment.
func parseShard(text string, getenv func(string) string) (batch.Part, error) {
	if text == "" {
		return batch.Part{}, nil
	}
	first, second, both := strings.Cut(text, "/")
	if !both {
		first, second = getenv(shardVariable), text
		if first == "" {
			return batch.Part{}, usagef("rebuild", "--shard %s: %s is not set: want I/N, as in 0/%s", text, shardVariable, text)
		}
	}
	n, err1 := strconv.Atoi(first)
	all, err2 := strconv.Atoi(second)
	if err1 != nil || err2 != nil || n < 0 || n >= all {
		return batch.Part{}, usagef("rebuild", "--shard %s/%s: want I/N with I from 0 to N-1", first, second)
	}
	return batch.Part{Index: n, Of: all}, nil
}

// runBatch rebuilds a list of images.
func runBatch(ctx context.Context, opts RebuildOptions, o images.RebuildOptions, out *output, e engine) error {
	part, err := parseShard(opts.shard, os.Getenv)
	if err != nil {
		return err
	}
	list, err := e.readList(opts.fromFile, batch.ListOptions{Template: opts.template, Part: part})
	if err != nil {
		return err
	}
	defer list.Close()
	if list.All() == 0 {
		return usagef("rebuild", "%s: no image in the list", opts.fromFile)
	}
	o.Jobs = 0 // of the files; --jobs counts images here
	rows := &report.Rows{}
	defer rows.Close()
	finished := 0
	done, err := e.rebuildAll(ctx, list, batch.Options{
		RebuildOptions: o, AtOnce: opts.jobs, State: opts.state, FailFast: opts.failFast,
		Each: func(each batch.Outcome) error {
			finished++
			out.outcome(finished, list.Count(), each)
			return rows.Add(reportRow(each))
		},
	})
	if done == nil {
		return err
	}
	out.endProgress()
	if err != nil {
		out.note("%d of %s finished%s", finished, count(list.Count(), "image"), goesOn(opts.state))
	}
	if printErr := out.batch(opts, list, done, rows); err == nil {
		err = printErr
	}
	if err != nil {
		return err
	}
	return batchError(done)
}

// goesOn says what becomes of a run that was ended.
func goesOn(state string) string {
	if state == "" {
		return "; with --state the next run would resume here"
	}
	return "; run the command again to resume"
}

// batchError is the exit status of a list: failures are an error, open sites findings.
func batchError(b *batch.Batch) error {
	if failed := b.Of[batch.StatusFailed]; failed > 0 {
		return &batchFailure{failed, b.All()}
	}
	if b.LeftOver == 0 {
		return nil
	}
	return &findingsError{
		msg:  fmt.Sprintf("%s: %s could not be patched", count(b.Open, "image"), count(b.LeftOver, openSite)),
		hint: "run 'vfix scan IMAGE' to see them and the reasons",
	}
}

// batchFailure is the error of a list of which not all images could be done.
type batchFailure struct{ failed, all int }

func (b *batchFailure) Error() string {
	return fmt.Sprintf("%d of %s failed", b.failed, count(b.all, "image"))
}

func (b *batchFailure) Hint() string {
	return "the table gives the reasons; run the command again to retry; with --state only the failed images are retried"
}

// whyFailed is an outcome's error and what to do about it, as text.
func whyFailed(o batch.Outcome) (why, hint string) {
	if o.Err == nil {
		return "", ""
	}
	var hinted interface{ Hint() string }
	if errors.As(o.Err, &hinted) {
		hint = hinted.Hint()
	} else {
		hint = hintOf(o.Err)
	}
	return safe(o.Err.Error()), safe(hint)
}
