package starts

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// The outcome of a start, its reason and the files that count as patched.
func TestSettle(t *testing.T) {
	broken := errors.New("broken")
	for _, c := range []struct {
		name            string
		err             error
		closed          bool
		problems, files int
		disabled        bool
		want            Outcome
		reason          string
		left            int // files
	}{
		{name: "nothing to do", want: Clean},
		{name: "files", files: 2, want: Patched, left: 2},
		{name: "files, closed", files: 2, closed: true, want: Patched, left: 2},
		{name: "a problem", files: 2, problems: 1, want: Partial, left: 2},
		{name: "a problem, closed", files: 2, problems: 1, closed: true, want: Refused, reason: "not patched: /bin/0: unreadable"},
		{name: "an error", err: broken, files: 2, want: Unpatched, reason: "broken"},
		{name: "an error, closed", err: broken, files: 2, problems: 1, closed: true, want: Refused, reason: "broken"},
		{name: "disabled", disabled: true, want: Disabled},
		{name: "disabled, closed", disabled: true, closed: true, want: Disabled},
		{name: "disabled, files", disabled: true, files: 1, want: Disabled, left: 1},
		{name: "disabled with a problem", disabled: true, problems: 1, want: Partial},
	} {
		r := &Record{}
		if c.disabled {
			r.Outcome = Disabled
		}
		for n := range c.problems {
			r.Add(fmt.Sprintf("/bin/%d", n), "unreadable")
		}
		for range c.files {
			r.Files = append(r.Files, File{})
		}
		r.Settle(c.err, c.closed)
		if r.Outcome != c.want || r.Reason != c.reason || len(r.Files) != c.left {
			t.Errorf("%s: got %s, %q, %d files, want %s, %q, %d", c.name, r.Outcome, r.Reason, len(r.Files), c.want, c.reason, c.left)
		}
	}
	was := Record{Outcome: Patched, Files: []File{{}}}
	if r := was.Correct(NotStarted, strings.Repeat("x", maxText+1)); r.Outcome != NotStarted || r.Reason != strings.Repeat("x", maxText) || r.Files == nil || len(r.Files) > 0 {
		t.Errorf("corrected: got %+v", r)
	}
}

func TestWhy(t *testing.T) {
	for n, want := range []string{"", "/0: x", "/0: x; /1: x", "/0: x; /1: x; x", "/0: x; /1: x; x; and 1 more", "/0: x; /1: x; x; and 2 more"} {
		r := &Record{}
		for i := range n {
			path := fmt.Sprintf("/%d", i)
			if i == 2 {
				path = "" // of the container
			}
			r.Add(path, "x")
		}
		if got := r.Why(); got != want {
			t.Errorf("%d problems: got %q, want %q", n, got, want)
		}
		if r.Reason = "broken"; r.Why() != "broken" {
			t.Errorf("%d problems: got %q for a reason", n, r.Why())
		}
	}
}

func TestFind(t *testing.T) {
	path := filepath.Join(t.TempDir(), "starts.jsonl")
	if _, err := Find(path, "a"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: got %v", err)
	}
	for _, c := range []string{"early", "a", "ab", "a", "b"} {
		if err := (Log{Record: path}).Add(&Record{Container: c, Outcome: Clean, Bundle: "/run/" + c, Examined: len(c)}); err != nil {
			t.Fatal(err)
		}
	}
	for container, found := range map[string]bool{"early": true, "a": true, "ab": true, "b": true, "run": false, "": false} {
		if r, err := Find(path, container); err != nil || (r != nil) != found || found && (r.Container != container || r.Examined != len(container)) {
			t.Errorf("%q: got %+v, %v", container, r, err)
		}
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	f.WriteString(strings.Repeat("x", 1<<20-100) + "\n{}\n") // within the last 1 MiB is the last record alone
	if r, err := Find(path, "b"); err != nil || r != nil && r.Container != "b" {
		t.Errorf("got %+v, %v", r, err)
	}
	if r, err := Find(path, "early"); err != nil || r != nil {
		t.Errorf("a record far from the end: got %+v, %v", r, err)
	}
	for _, no := range []string{None, Journal} {
		if _, err := Find(no, "a"); err == nil || !strings.Contains(err.Error(), "recorded in "+no) {
			t.Errorf("%s: got %v", no, err)
		}
	}
	if _, err := Find(t.TempDir(), "a"); err == nil {
		t.Error("a directory: got no error")
	}
}

// The counters after a start.
func TestCounters(t *testing.T) {
	const p = prefix
	at := time.UnixMilli(1700000000250)
	for name, c := range map[string]struct {
		old  string
		r    Record
		want map[string]string
	}{
		"first": {"", Record{Outcome: Patched, Time: at, Files: make([]File, 2), Problems: make([]Problem, 3), SitesLeft: 4, CacheHit: true, Policy: Policy{Source: LastGood}, Seconds: Seconds{Look: 0.1, Total: 0.05}},
			map[string]string{
				p + `starts_total{result="patched"}`: "1", p + `starts_total{result="clean"}`: "0", p + `starts_total{result="not started"}`: "",
				p + `policy_source{source="last-good"}`: "1", p + `policy_source{source="file"}`: "0",
				p + "patched_files_total": "2", p + "problems_total": "3", p + "sites_left_total": "4",
				p + `cache_lookups_total{result="hit"}`: "1", p + `cache_lookups_total{result="miss"}`: "0",
				p + `start_seconds_bucket{le="0.025"}`: "0", p + `start_seconds_bucket{le="0.05"}`: "1", p + `start_seconds_bucket{le="0.1"}`: "1",
				p + `start_seconds_bucket{le="+Inf"}`: "1", p + "start_seconds_sum": "0.05", p + "start_seconds_count": "1",
				p + "last_start_timestamp_seconds": "1700000000.25",
			}},
		"another": {
			"# " + p + "sites_left_total 7\n 8\n" + p + "sites_left_total -5\n" + p + "problems_total NaN\n" + p + "patched_files_total 1.5\n" + p + "last_start_timestamp_seconds 9\n" + p + `cache_lookups_total{result="miss"} 6` + "\n" + p + `policy_source{source="file"} 1`,
			Record{Outcome: Clean, Time: at, Files: make([]File, 1), Problems: make([]Problem, 3), SitesLeft: 4, Seconds: Seconds{Look: 0.1, Total: 61}},
			map[string]string{
				p + "sites_left_total": "4", p + "problems_total": "3", p + "patched_files_total": "2.5", p + `policy_source{source="file"}`: "0", p + "last_start_timestamp_seconds": "1700000000.25",
				p + `cache_lookups_total{result="hit"}`: "0", p + `cache_lookups_total{result="miss"}`: "7",
				p + `start_seconds_bucket{le="60"}`: "0", p + `start_seconds_bucket{le="+Inf"}`: "1",
			}},
		"disabled": {"", Record{Outcome: Disabled, CacheHit: true, Seconds: Seconds{Look: 0.1}},
			map[string]string{p + `cache_lookups_total{result="hit"}`: "0", p + `cache_lookups_total{result="miss"}`: "0", p + `starts_total{result="disabled"}`: "1"}},
		"nothing looked at": {"", Record{Outcome: Unpatched},
			map[string]string{p + `cache_lookups_total{result="hit"}`: "0", p + `cache_lookups_total{result="miss"}`: "0", p + `starts_total{result="unpatched"}`: "1"}},
	} {
		got := map[string]string{}
		for line := range strings.Lines(string(counted([]byte(c.old), &c.r))) {
			metric, value, _ := strings.Cut(strings.TrimSpace(line), "} ")
			if value == "" {
				metric, value, _ = strings.Cut(strings.TrimSpace(line), " ")
			} else {
				metric += "}"
			}
			got[metric] = value
		}
		for metric, want := range c.want {
			if got[metric] != want {
				t.Errorf("%s: %s: got %q, want %q", name, metric, got[metric], want)
			}
		}
	}
}

// The file of counters is readable for the collector, replaces what an interrupted start left, and stays as it is
// if it cannot be written.
func TestMetricsAreWritten(t *testing.T) {
	dir := t.TempDir()
	path, temp := filepath.Join(dir, "vfix.prom"), filepath.Join(dir, ".vfix.prom.tmp")
	write := func(name string, size int) {
		t.Helper()
		if err := os.WriteFile(name, append(bytes.Repeat([]byte("#"), size-1), '\n'), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(path, maxMetrics)
	write(temp, 3)
	if err := count(path, record(Clean)); err != nil {
		t.Fatal(err)
	}
	if m := parseMetrics(t, path); m["vfix_runtime_start_seconds"] == nil {
		t.Errorf("got %v", m)
	}
	if fi, err := os.Stat(path); err != nil || fi.Mode() != 0o644 {
		t.Errorf("got %v, %v", fi, err)
	}
	for name, spoil := range map[string]func() error{
		"more than 65536 bytes": func() error { write(path, maxMetrics+1); return nil },
		"directory not empty":   func() error { return os.MkdirAll(temp+"/x", 0o700) },
		"not a metrics file":    func() error { return errors.Join(os.Remove(path), os.Mkdir(path, 0o700)) },
	} {
		os.RemoveAll(path)
		write(path, 10)
		if err := spoil(); err != nil {
			t.Fatal(err)
		}
		before, _ := os.Lstat(path)
		err := count(path, record(Clean))
		after, _ := os.Lstat(path)
		if err == nil || !strings.Contains(err.Error(), name) || !os.SameFile(before, after) || before.Size() != after.Size() {
			t.Errorf("%s: got %v", name, err)
		}
		os.RemoveAll(temp)
	}
}

// A line is shorter than maxLine before its end, and as long as possible.
func TestLineLength(t *testing.T) {
	r := &Record{Files: []File{{}}}
	short, err := r.line()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ size, omitted int }{{maxLine - 1, 0}, {maxLine, 1}} {
		r.Bundle = strings.Repeat("b", c.size-(len(short)-1))
		line, err := r.line()
		if err != nil || bytes.Contains(line, []byte(`"omitted":1`)) != (c.omitted == 1) || !bytes.HasPrefix(line, []byte(`{"schema":1,`)) || line[len(line)-1] != '\n' {
			t.Errorf("%d bytes: got %d, %v", c.size, len(line), err)
		}
	}
}

// The sum of what was recorded, the oldest start first, whatever the order of the lines.
func TestSummary(t *testing.T) {
	path := filepath.Join(t.TempDir(), "starts.jsonl")
	for _, c := range []struct {
		minute int
		o      Outcome
		total  float64
	}{{5, Clean, 0.5}, {3, Disabled, 9}, {4, Refused, 0.1}, {9, Partial, 0.7}, {8, NotStarted, 9}} {
		r := &Record{Time: time.Date(2026, 1, 1, 0, c.minute, 0, 0, time.UTC), Outcome: c.o, Seconds: Seconds{Total: c.total}, CacheHit: true, Files: []File{{}}, SitesLeft: 2}
		if err := (Log{Record: path}).Add(r); err != nil {
			t.Fatal(err)
		}
	}
	want := Summary{
		Starts: 5, Since: time.Date(2026, 1, 1, 0, 3, 0, 0, time.UTC), CacheHits: 3, Looked: 3, Files: 5, SitesLeft: 10, Median: 0.5, Longest: 0.7,
		Outcomes: map[Outcome]int{Clean: 1, Disabled: 1, Refused: 1, Partial: 1, NotStarted: 1},
	}
	s, err := Read(path, 2)
	if err != nil || !reflect.DeepEqual(s.Summary, want) {
		t.Errorf("got %+v, %v, want %+v", s.Summary, err, want)
	}
	if len(s.Last) != 2 || s.Last[0].Outcome != Partial || s.Last[1].Outcome != NotStarted || s.From != path {
		t.Errorf("the last: got %+v of %s", s.Last, s.From)
	}
	if err := os.WriteFile(path+".1", []byte(`{"outcome":"clean","seconds":{"total":8}}`+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if s, err := Read(path, 9); err != nil || s.Summary.Starts != 6 || s.Summary.Longest != 8 || s.Last[0].Seconds.Total != 8 {
		t.Errorf("two files: got %+v, %v", s, err)
	}
	if err := os.WriteFile(path+".1", bytes.Repeat([]byte("x"), 2*maxLine), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, at := range map[string]string{"a line without end": path, "a directory": filepath.Dir(path)} {
		if _, err := Read(at, 2); err == nil || !strings.Contains(err.Error(), at) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if _, err := Read(path+"/x", 2); err == nil {
		t.Error("below a file: got no error")
	}
}

// The journal's records are those that journalctl prints.
func TestReadJournal(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", dir+":/bin:/usr/bin")
	for name, c := range map[string]struct{ script, want string }{
		"two":    {`echo '{"outcome":"clean"}'; echo "{\"outcome\":\"patched\",\"container\":\"$*\"}"`, ""},
		"fails":  {"exit 3", "journalctl: exit status 3"},
		"no end": {"head -c 100000 /dev/zero", "token too long"},
	} {
		if err := os.WriteFile(dir+"/journalctl", []byte("#!/bin/sh\n"+c.script+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		s, err := Read(Journal, 1)
		if c.want != "" {
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: got %v, want %s", name, err, c.want)
			}
		} else if err != nil || s.Summary.Starts != 2 || s.Last[0].Container != "--identifier vfix-runtime --output cat --no-pager --quiet --lines 10000" {
			t.Errorf("%s: got %+v, %v", name, s, err)
		}
	}
}

// Who may read the records, and that a file is renamed by one process alone.
func TestFileOfRecords(t *testing.T) {
	defer func(n int64) { maxFile = n }(maxFile)
	dir := t.TempDir()
	for _, at := range []string{dir + "/starts.jsonl", dir + "/new/dir/starts.jsonl"} {
		if err := (Log{Record: at}).Add(record(Clean)); err != nil {
			t.Fatal(err)
		}
		if fi, err := os.Stat(at); err != nil || fi.Mode() != 0o640 {
			t.Errorf("%s: got %v, %v", at, fi, err)
		}
	}
	if fi, err := os.Stat(dir + "/new/dir"); err != nil || fi.Mode().Perm() != 0o750 {
		t.Errorf("got %v, %v", fi, err)
	}
	if err := (Log{Record: dir + "/starts.jsonl/x/y"}).Add(record(Clean)); err == nil || !strings.Contains(err.Error(), "record: ") {
		t.Errorf("below a file: got %v", err)
	}
	path := dir + "/starts.jsonl"
	fi, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	add := func(files int) {
		t.Helper()
		if err := (Log{Record: path}).Add(record(Clean)); err != nil {
			t.Fatal(err)
		}
		if all, _ := filepath.Glob(path + "*"); len(all) != files {
			t.Errorf("got %q, want %d files", all, files)
		}
	}
	maxFile = fi.Size() + 1
	add(1)
	maxFile = 2
	other, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Flock(int(other.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	add(1) // another renames it
	other.Close()
	if fi, err = os.Stat(path); err != nil {
		t.Fatal(err)
	}
	maxFile = fi.Size()
	add(2)
	if old, err := os.Stat(path + ".1"); err != nil || !os.SameFile(fi, old) {
		t.Errorf("got %v, %v", old, err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for name, is := range map[string]os.FileInfo{path: fi, path + "x": fi} { // another is there, or none
		if rotate(f, is, name) {
			t.Errorf("%s was renamed", name)
		}
	}
}
