// The output of list, and what it refuses.

package main

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"vfix.dev/vfix/images/inventory"
	"vfix.dev/vfix/images/media"
)

func TestList(t *testing.T) {
	var sources []string
	var o inventory.ListOptions
	e := engine{
		list: func(_ context.Context, source string, got inventory.ListOptions) error {
			sources, o = append(sources, source), got
			if source == "docker://bad.example" {
				return errors.New("registry bad.example: no answer")
			}
			return got.Each(inventory.Listed{Source: source + "/app:1\x1b", Created: time.Unix(0, 0).UTC()})
		},
		gone: func(_ context.Context, state string, _ media.Options, f func(string) error, unknown func(string, error)) error {
			if state == "partly.jsonl" {
				unknown("docker://old.example/app:2", errors.New("401 unauthorized"))
			}
			return f("docker://new.example/" + state)
		},
	}
	got := runLine(e, "list", "docker://a.example", "docker://bad.example", "docker://b.example/team", "--match", "x*", "--match", "y", "--newer-than", "2016-01-31", "--platform", "linux/amd64", "--max-requests", "2.5", "-j", "3")
	if got.status != statusError || got.stdout != "docker://a.example/app:1\\x1b\ndocker://b.example/team/app:1\\x1b\n" || !strings.Contains(got.stderr, "bad.example: no answer") {
		t.Errorf("got %+v", got)
	}
	if len(sources) != 3 || len(o.Match) != 2 || !o.Newer.Equal(time.Date(2016, 1, 31, 0, 0, 0, 0, time.UTC)) || !o.Platform || o.Media.PerSecond != 2.5 || o.Jobs != 3 {
		t.Errorf("asked for %q, %+v", sources, o)
	}
	sources = nil
	got = runLine(e, "list", "--format", "json", "-q")
	if err := validate(t, schema(t), got.stdout); err != nil || got.status != statusDone || got.stderr != "" || len(sources) != 1 || sources[0] != inventory.Engines || o.Platform || !o.Newer.IsZero() {
		t.Errorf("%v: got %+v, asked for %q", err, got, sources)
	}
	if got := runLine(e, "list", "--format", "json", "docker://bad.example"); got.status != statusError || got.stdout != "" || strings.Contains(got.stderr, "0 images") {
		t.Errorf("nothing could be listed: got %+v", got)
	}
	if got := runLine(e, "list", "--gone", "done.jsonl"); got.stdout != "docker://new.example/done.jsonl\n" {
		t.Errorf("--gone: got %+v", got)
	}
	if got := runLine(e, "list", "--gone", "partly.jsonl"); got.status != statusError || got.stdout != "docker://new.example/partly.jsonl\n" ||
		!strings.Contains(got.stderr, "docker://old.example/app:2: 401") || !strings.Contains(got.stderr, "1 source skipped") {
		t.Errorf("--gone with a registry that does not answer: got %+v", got)
	}
	for args, want := range map[string]string{
		"oci:x":                    "want docker://HOST",
		"redis":                    "want docker://HOST",
		"- --newer-than 9d":        "does not work with -",
		"--platform linux/amd64":   "--platform works only with",
		"--newer-than soon":        "a number of days such as 90d",
		"--newer-than -1d":         "a number of days such as 90d",
		"--max-requests -1":        "must not be negative",
		"--gone s docker://x":      "omit arguments",
		"--gone s --match x":       "omit arguments",
		"--format yaml docker://x": "--format yaml",
	} {
		if got := runLine(e, append([]string{"list"}, strings.Fields(args)...)...); got.status != statusUsage || !strings.Contains(got.stderr, want) || got.stdout != "" {
			t.Errorf("list %s: got %+v, want %q", args, got, want)
		}
	}
	now := time.Date(2026, 3, 31, 12, 0, 0, 0, time.UTC)
	if got, err := since("90d", now); err != nil || !got.Equal(time.Date(2025, 12, 31, 12, 0, 0, 0, time.UTC)) {
		t.Errorf("got %v, %v", got, err)
	}
}
