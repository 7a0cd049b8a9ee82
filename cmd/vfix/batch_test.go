// The output of rebuild --from-file, and what it refuses.

package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"vfix.dev/vfix/images/batch"
	"vfix.dev/vfix/images/outcome"
)

// fakeBatch is an engine whose list ends as given, and the request that it got.
func fakeBatch(outcomes []outcome.Image, err error) (engine, *batch.Options, *batch.ListOptions) {
	given, list := &batch.Options{}, &batch.ListOptions{}
	open := func(name string, o batch.ListOptions) (*batch.List, error) {
		*list = o
		return batch.OpenList(name, o)
	}
	return engine{readList: open, rebuildAll: func(_ context.Context, _ *batch.List, o batch.Options) (*batch.Batch, error) {
		*given = o
		b := &batch.Batch{Of: map[outcome.Status]int{}}
		for _, each := range outcomes {
			if each.Status == outcome.NotRun {
				b.Of[each.Status]++
			} else if err := o.Report(b, each); err != nil {
				return b, err
			}
		}
		return b, err
	}}, given, list
}

func outcomes() []outcome.Image {
	item := func(n int, source string) outcome.Item { return outcome.Item{Line: n, Source: source} }
	return []outcome.Image{
		{Item: item(2, "app:1"), Status: outcome.Done, Reference: "app:1-vfix", Digest: digest, BaseDigest: digest, Files: 2, Patched: 5, LayerSize: 99},
		{Item: item(3, "app:2"), Status: outcome.Done, Before: true, Reference: "app:2-vfix", Files: 2, Patched: 5},
		{Item: item(5, "new:1"), Status: outcome.Unaffected, Reference: "new:1"},
		{Item: item(6, "odd:1"), Status: outcome.Done, Reference: "odd:1-vfix", Files: 1, LeftOver: 2, Warnings: []string{"a word of warning"}},
		{Item: item(7, "bad:1"), Status: outcome.Failed, Err: errors.New("GET https://u:secretpw@reg.example/?sig=abc: 500")},
		{Item: item(8, "rest:1"), Status: outcome.NotRun},
	}
}

// TestBatchUnread: an image with a file that could not be examined is a finding of the list.
func TestBatchUnread(t *testing.T) {
	list := filepath.Join(t.TempDir(), "list")
	if err := os.WriteFile(list, []byte("odd:1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	e, _, _ := fakeBatch([]outcome.Image{{Item: outcome.Item{Line: 1, Source: "odd:1"}, Status: outcome.Incomplete, Reference: "odd:1", Unread: 1, Warnings: []string{"1 layer could not be read"}}}, nil)
	got := runLine(e, "rebuild", "--from-file", list)
	if got.status != statusIncomplete || !strings.Contains(got.stderr, "incomplete: 1 image with") || !strings.Contains(got.stdout, "odd:1   incomplete      -  1 layer could not be read") {
		t.Errorf("got %+v", got)
	}
}

func TestBatch(t *testing.T) {
	list := filepath.Join(t.TempDir(), "list")
	if err := os.WriteFile(list, []byte("# a list\napp:1\napp:2 docker://x/y:2\n\nnew:1\nodd:1\nbad:1\nrest:1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	line := func(e engine, args ...string) lineResult {
		return runLine(e, append([]string{"rebuild", "--from-file", list}, args...)...)
	}
	e, given, asList := fakeBatch(outcomes(), nil)
	got := line(e, "--jobs", "3", "--state", "s", "--fail-fast", "--push")
	if got.status != statusError || given.AtOnce != 3 || given.State != "s" || !given.FailFast || !given.Push {
		t.Errorf("got %+v, asked %+v", got, given)
	}
	if line(e, "--shard", "1/2", "--dest-template", "oci:{name}"); !reflect.DeepEqual(*asList, batch.ListOptions{Template: "oci:{name}", Part: batch.Part{Index: 1, Of: 2}}) {
		t.Errorf("the list: got %+v", *asList)
	}
	for _, want := range []string{"app:1 ", "done before", "odd:1-vfix (2 ", "bad:1", "not run", "6 images: 3 done, 1 unaffected, 1 failed, 1 not run; 1 of them by an earlier run"} {
		if !strings.Contains(got.stdout, want) {
			t.Errorf("stdout has no %q:\n%s", want, got.stdout)
		}
	}
	for _, want := range []string{"1 of 6 images failed", "warning: odd:1: a word of warning", "app:2: done, by an earlier run: skipped", "2/6 "} {
		if !strings.Contains(got.stderr, want) {
			t.Errorf("stderr has no %q:\n%s", want, got.stderr)
		}
	}
	s := schema(t)
	json := line(e, "--format", "json")
	if err := validate(t, s, json.stdout); err != nil {
		t.Errorf("%#v\n%s", err, json.stdout)
	}
	for _, text := range []string{got.stdout, got.stderr, json.stdout} {
		if strings.Contains(text, "secretpw") || strings.Contains(text, "abc") {
			t.Errorf("a secret is in %s", text)
		}
	}
	if err := validate(t, s, strings.Replace(json.stdout, `"not run"`, `"forgotten"`, 1)); err == nil {
		t.Error("the schema takes any status")
	}
	e, _, _ = fakeBatch(outcomes()[:4], nil)
	if got := line(e); got.status != statusFindings {
		t.Errorf("with open sites: got %+v", got)
	}
	e, _, _ = fakeBatch(outcomes()[:3], nil)
	if got := line(e); got.status != statusDone {
		t.Errorf("all done: got %+v", got)
	}
	e, _, _ = fakeBatch(outcomes(), errors.New("the state file is gone"))
	if got := line(e); got.status != statusError || !strings.Contains(got.stdout, "6 images: 3 done") || !strings.Contains(got.stderr, "the state file is gone") {
		t.Errorf("a run that could not go on: got %+v", got)
	}
}

func TestBatchUsage(t *testing.T) {
	dir := t.TempDir()
	list, bad := filepath.Join(dir, "list"), filepath.Join(dir, "bad")
	for name, text := range map[string]string{list: "app:1\n", bad: "app:1 x y\n"} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	e, _, _ := fakeBatch(nil, nil)
	for args, want := range map[string]string{
		"--state s x":                                                        "--state works only with",
		"--fail-fast x":                                                      "--fail-fast works only with",
		"--from-file " + list + " x":                                         "put x into the list",
		"--from-file " + list + " -o oci:x":                                  "-o is for one image",
		"--from-file " + list + " -t x":                                      "-t names one image",
		"--from-file " + list + " --shard 2/2":                               "want I/N",
		"--from-file " + list + " --shard x/2":                               "want I/N",
		"--from-file " + list + " --shard 3":                                 "JOB_COMPLETION_INDEX is not set",
		"--from-file " + list + " --dest-template oci:x":                     "nothing in braces",
		"--from-file " + list + " --dest-template oci:{x}":                   "{x}: want {registry}",
		"--from-file " + list + " --dest-template a:{tag} --tag-suffix -new": "use one of them",
		"--from-file " + list + " --provenance p.json":                       "one file for many",
		"--from-file /dev/null":                                              "no image in the list",
	} {
		got := runLine(e, append([]string{"rebuild"}, strings.Fields(args)...)...)
		if got.status != statusUsage || !strings.Contains(got.stderr, want) {
			t.Errorf("rebuild %s: got %+v, want %q", args, got, want)
		}
	}
	if got := runLine(e, "rebuild", "--from-file", bad); got.status != statusError || !strings.Contains(got.stderr, "line 1: 3 words") {
		t.Errorf("a bad list: got %+v", got)
	}
}

// A scan of a list: its words, its exit status, its JSON, its report and its counters.
func TestBatchScan(t *testing.T) {
	dir := t.TempDir()
	list, metrics := filepath.Join(dir, "list"), filepath.Join(dir, "vfix.prom")
	if err := os.WriteFile(list, []byte("app:1\nnew:1\nbad:1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	item := func(n int, source string) outcome.Item { return outcome.Item{Line: n, Source: source} }
	e, _, given := fakeBatch([]outcome.Image{
		{Item: item(2, "new:1"), Status: outcome.Unaffected, Fixed: 3},
		{Item: item(1, "app:1"), Status: outcome.Affected, Files: 2, Patched: 5, LeftOver: 1, Hazards: []string{"schema1"}, Warnings: []string{"=cmd()"}},
		{Item: item(3, "bad:1"), Status: outcome.Failed, Err: errors.New("<b>no</b> such image")},
	}, nil)
	e.scanAll = e.rebuildAll
	line := func(args ...string) lineResult {
		return runLine(e, append([]string{"scan", "--from-file", list}, args...)...)
	}
	for _, ending := range []string{".csv", ".jsonl", ".html"} {
		report := filepath.Join(dir, "report"+ending)
		got := line("--report", report, "--metrics", metrics, "--first", "new:*")
		if got.status != statusError || !strings.Contains(got.stdout, "3 images: 1 affected, 1 unaffected, 1 failed; 1 with hazards") || !strings.Contains(got.stderr, "app:1: affected: 6 call sites") || !strings.Contains(got.stderr, "new:1: unaffected: 3 files to fix") {
			t.Fatalf("%s: got %+v", ending, got)
		}
		if given.First == nil || !given.First.MatchString("docker://r.example/new:2") || given.First.MatchString("renew:1") {
			t.Errorf("--first: got %v", given.First)
		}
		data, err := os.ReadFile(report)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range map[string][]string{
			".csv":   {"line,source,", "\n1,app:1,,affected,false,,,,2,5,1,0,0,schema1,'=cmd(),,\n", "\n2,new:1,,unaffected,false,,,,0,0,0,3,0,,,,\n"},
			".jsonl": {`{"line":2,"source":"new:1"`, `"warnings":["=cmd()"]`},
			".html": {"<!DOCTYPE html>", `<tr class="affected">`, "&lt;b&gt;no&lt;/b&gt;", "<p>3 images: 1 affected, 1 unaffected, 1 failed; 1 with hazards</p>", "<small>hazard: schema1</small>", "<small>files with a fix (--fix): 3</small>", "</html>",
				"<b>incomplete</b>: part of it", "<p>Next: run the same command again", " UTC</small>"},
		}[ending] {
			if !strings.Contains(string(data), want) {
				t.Errorf("%s has no %q:\n%s", report, want, data)
			}
		}
	}
	data, err := os.ReadFile(metrics)
	if err != nil {
		t.Fatal(err)
	}
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(data))
	if err != nil || families["vfix_list_images"].Metric[0].Gauge.GetValue() != 3 || len(families["vfix_list_images_finished_total"].Metric) != 5 {
		t.Errorf("%v in\n%s", err, data)
	}
	if got := line("--format", "json"); validate(t, schema(t), got.stdout) != nil || !strings.Contains(got.stdout, `"affected": 1`) {
		t.Errorf("%v: %s", validate(t, schema(t), got.stdout), got.stdout)
	}
	for args, want := range map[string]string{"--report x.pdf": ".csv, .jsonl, .html", "--max-requests -1": "must not be negative", "--explain": "omit --from-file"} {
		if got := line(strings.Fields(args)...); got.status != statusUsage || !strings.Contains(got.stderr, want) {
			t.Errorf("%s: got %+v", args, got)
		}
	}
	e, _, _ = fakeBatch([]outcome.Image{{Item: item(1, "app:1"), Status: outcome.Affected}}, nil)
	e.scanAll = e.rebuildAll
	if got := line(); got.status != statusFindings {
		t.Errorf("affected: got %+v", got)
	}
	e, _, _ = fakeBatch([]outcome.Image{{Item: item(1, "app:1"), Status: outcome.Unaffected, Hazards: []string{"schema1"}}}, nil)
	e.scanAll = e.rebuildAll
	for args, want := range map[string]int{"": 0, "--strict": statusFindings} {
		if got := line(strings.Fields(args)...); got.status != want || !strings.Contains(got.stdout, "- (1 hazard: schema1)") {
			t.Errorf("hazards, %q: got %+v", args, got)
		}
	}
}
