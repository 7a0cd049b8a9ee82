// The output of vfix runtime status, and which words after vfix runtime are its own.

package main

import (
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"vfix.dev/vfix/host/ociruntime"
	"vfix.dev/vfix/host/policy"
	"vfix.dev/vfix/host/starts"
)

func recorded() *ociruntime.Status {
	sum := strings.Repeat("0f", 32)
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	return &ociruntime.Status{
		Status: &starts.Status{
			From: "/var/log/vfix/starts.jsonl",
			Last: []starts.Record{
				{Schema: 1, Time: at, Vfix: "1.0", Container: strings.Repeat("c0ffee", 10), Runtime: "/usr/bin/runc", Bundle: "/b", Outcome: starts.Patched, Policy: starts.Policy{Source: starts.FromFile}, CacheHit: true,
					Files: []starts.File{{Path: "/lib/libc.so.6", Before: sum, After: sum, Sites: 12}}, Problems: []starts.Problem{},
					Seconds: starts.Seconds{Look: 0.001, Patch: 0.002, Total: 0.0041}},
				{Schema: 1, Time: at, Container: "db", Outcome: starts.Partial, Policy: starts.Policy{Source: starts.LastGood}, SitesLeft: 2, Files: []starts.File{},
					Problems: []starts.Problem{{Path: "/bin/x\x1b", Reason: "2 call sites left"}, {Reason: "cache: full"}}, Seconds: starts.Seconds{Look: 1, Total: 1.5}},
				{Schema: 1, Time: at, Container: "no", Outcome: starts.Disabled, Policy: starts.Policy{Source: starts.ClosedDefault}, Files: []starts.File{}, Problems: []starts.Problem{}},
			},
			Summary: starts.Summary{
				Starts: 7, Since: at, Outcomes: map[starts.Outcome]int{starts.Patched: 5, starts.Partial: 1, starts.Disabled: 1},
				CacheHits: 4, Looked: 6, Files: 9, SitesLeft: 2, Median: 0.0041, Longest: 1.5, Damaged: 1,
			},
		},
		Policy: policy.InForce{Source: starts.FromFile, Path: policy.ConfigFile, Config: policy.Config{FailClosed: true}},
		Cache:  ociruntime.CacheState{Dir: "/var/lib/vfix", Bytes: 5 << 20, Entries: 12, Limit: 2 << 30},
	}
}

func TestStatusOutput(t *testing.T) {
	defer func(l *time.Location) { time.Local = l }(time.Local)
	time.Local = time.UTC
	got := runLine(fake(clean(), nil), "runtime", "status")
	golden(t, "runtime-status.txt", got.stdout+"--\n"+got.stderr)
	for line := range strings.Lines(got.stdout) {
		if n := len(strings.TrimRight(line, "\n")); n > 80 {
			t.Errorf("a line of %d columns: %s", n, line)
		}
	}
	e := fake(clean(), nil)
	e.status = func(o ociruntime.StatusOptions) (*ociruntime.Status, error) {
		if o.Last != 3 || o.Record != "journald" {
			t.Errorf("the engine got %+v", o)
		}
		return nil, &fs.PathError{Op: "open", Path: "/x", Err: fs.ErrNotExist}
	}
	if got := runLine(e, "runtime", "status", "--last", "3", "--record", "journald"); got.status != 1 || !strings.Contains(got.stderr, "--record") {
		t.Errorf("got %+v", got)
	}
	for _, line := range []string{"runtime status x", "runtime status --last -1", "runtime status --format xml", "runtime status --lst 1"} {
		if got := runLine(fake(clean(), nil), strings.Fields(line)...); got.status != 2 || !strings.Contains(got.stderr, "hint: ") {
			t.Errorf("vfix %s: got %+v", line, got)
		}
	}
}

// A configuration is checked before it is used: the error has the line, and the hint what to do.
func TestRuntimeCheck(t *testing.T) {
	dir := t.TempDir()
	for text, want := range map[string]string{
		"{}":                                "",
		"{\n  \"fail_closed\": true\n}":     "",
		"{\n  \"fail_closed\": \"true\"\n}": "line 2, column 18",
		"{\n  \"fail-closed\": true\n}":     `write "fail_closed"`,
	} {
		file := filepath.Join(dir, "runtime.json")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		got := runLine(fake(clean(), nil), "runtime", "check", file)
		switch {
		case want == "" && (got.status != 0 || got.stdout != file+": valid\n"):
			t.Errorf("%s: got %+v", text, got)
		case want != "" && (got.status != 3 || got.stdout != "" || !strings.Contains(got.stderr, want) || !strings.Contains(got.stderr, "hint: ")):
			t.Errorf("%s: got %+v", text, got)
		}
	}
	for line, want := range map[string]int{"runtime check a b": 2, "runtime check " + dir + "/none": 1, "runtime check " + dir: 3} {
		if got := runLine(fake(clean(), nil), strings.Fields(line)...); got.status != want || !strings.Contains(got.stderr, "hint: ") {
			t.Errorf("%s: got %+v", line, got)
		}
	}
}

// The arguments of an engine go to the runtime, whatever it is.
func TestRuntimeArgs(t *testing.T) {
	for line, want := range map[string]string{
		"vfix runtime state c": "state c", "vfix-runtime": "", "vfix-runtime status": "status", "/usr/bin/vfix-runtime --help": "--help",
		"vfix runtime --log x status": "--log x status", "vfix runtime create --help": "create --help",
	} {
		if got, ok := runtimeArgs(strings.Fields(line)); !ok || strings.Join(got, " ") != want {
			t.Errorf("%s: got %q, %v, want %q", line, got, ok, want)
		}
	}
	for _, line := range []string{"vfix runtime status", "vfix runtime status --last 1", "vfix runtime check", "vfix runtime check x", "vfix runtime --help", "vfix scan x", "vfix", ""} {
		if got, ok := runtimeArgs(strings.Fields(line)); ok {
			t.Errorf("%s: got %q, want vfix's own", line, got)
		}
	}
}

// A line of the record is what docs/schema.json calls a start.
func TestRecordMatchesSchema(t *testing.T) {
	s := schema(t)
	doc := runLine(fake(clean(), nil), "runtime", "status", "--format", "json").stdout
	if err := validate(t, s, doc); err != nil {
		t.Fatal(err)
	}
	var v map[string]any
	if err := json.Unmarshal([]byte(doc), &v); err != nil {
		t.Fatal(err)
	}
	v["starts"].([]any)[0].(map[string]any)["outcome"] = "lost"
	bad, _ := json.Marshal(v)
	if validate(t, s, string(bad)) == nil {
		t.Error("the schema takes any outcome")
	}
}
