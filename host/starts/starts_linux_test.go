package starts

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"golang.org/x/sys/unix"
)

func record(o Outcome) *Record {
	return &Record{
		Time: time.Now().UTC(), Container: "c1", Outcome: o, Files: []File{{Path: "/lib/x", Sites: 3}}, Problems: []Problem{},
		SitesLeft: 2, Seconds: Seconds{Look: 0.001, Total: 0.03}, CacheHit: o == Patched,
	}
}

// Many at once: each start is one whole line, and no count is lost.
func TestConcurrentStarts(t *testing.T) {
	dir := t.TempDir()
	l := Log{Record: filepath.Join(dir, "log", "starts.jsonl"), Metrics: filepath.Join(dir, "vfix.prom")}
	const workers, each = 8, 25
	var all sync.WaitGroup
	for range workers {
		all.Go(func() {
			for n := range each {
				o := Patched
				if n%5 == 0 {
					o = Partial
				}
				if err := l.Add(record(o)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	s, err := Read(l.Record, 3)
	if err != nil || s.Summary.Starts != workers*each || s.Summary.Damaged != 0 || len(s.Last) != 3 || s.Summary.Outcomes[Partial] != workers*each/5 {
		t.Errorf("got %+v, %v", s, err)
	}
	if s.Summary.Files != workers*each || s.Summary.SitesLeft != 2*workers*each || s.Summary.CacheHits != workers*each*4/5 || s.Summary.Median != 0.03 {
		t.Errorf("got %+v", s.Summary)
	}
	metrics := parseMetrics(t, l.Metrics)
	got := map[string]float64{}
	for _, m := range metrics["vfix_runtime_starts_total"].Metric {
		got[m.Label[0].GetValue()] = m.Counter.GetValue()
	}
	if got["patched"] != workers*each*4/5 || got["partial"] != workers*each/5 || got["refused"] != 0 || len(got) != len(Outcomes)-1 {
		t.Errorf("got %v", got)
	}
	h := metrics["vfix_runtime_start_seconds"].Metric[0].Histogram
	if h.GetSampleCount() != workers*each || h.GetSampleSum() < 0.0299*workers*each || h.GetSampleSum() > 0.0301*workers*each {
		t.Errorf("got %v", h)
	}
	for _, b := range h.Bucket {
		if want := uint64(workers * each); b.GetUpperBound() >= 0.05 && b.GetCumulativeCount() != want || b.GetUpperBound() < 0.03 && b.GetCumulativeCount() != 0 {
			t.Errorf("bucket %v: got %d", b.GetUpperBound(), b.GetCumulativeCount())
		}
	}
	if left, _ := filepath.Glob(filepath.Join(dir, ".*")); len(left) != 0 {
		t.Errorf("left: %q", left)
	}
}

// Prometheus' own parser and linter accept the file.
func parseMetrics(t *testing.T, path string) map[string]*dto.MetricFamily {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	problems, err := promlint.New(bytes.NewReader(b)).Lint()
	if err != nil || len(problems) > 0 {
		t.Errorf("promlint: %+v, %v", problems, err)
	}
	return families
}

// A damaged or older file of counters loses only its unreadable counters.
func TestMetricsFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "vfix.prom")
	if err := os.WriteFile(path, []byte("vfix_runtime_patched_files_total 41\ngone_total 5\nvfix_runtime_starts_total{result=\"patched\"} x\nhalf"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := count(path, record(Patched)); err != nil {
		t.Fatal(err)
	}
	m := parseMetrics(t, path)
	if m["gone_total"] != nil || m["vfix_runtime_patched_files_total"].Metric[0].Counter.GetValue() != 42 || m["vfix_runtime_starts_total"].Metric[0].Counter.GetValue() != 1 {
		t.Errorf("got %v", m)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := count(path, record(Patched)); err == nil || !strings.Contains(err.Error(), "not a metrics file") {
		t.Errorf("a fifo: got %v", err)
	}
	if err := (Log{Metrics: "/nonexistent/x.prom"}).Add(record(Patched)); err == nil || !strings.Contains(err.Error(), "metrics: ") {
		t.Errorf("no directory: got %v", err)
	}
}

// The length of a line is bounded, whatever a start has to report, and the line has the number of omitted entries.
func TestLongRecord(t *testing.T) {
	r := record(Partial)
	for i := range 5000 {
		r.Files = append(r.Files, File{Path: fmt.Sprintf("/usr/lib/%d", i), Before: strings.Repeat("0", 64)})
		r.Add(fmt.Sprintf("/usr/bin/%d", i), strings.Repeat("why ", 1000))
		r.Layers = append(r.Layers, strings.Repeat("l", 100))
	}
	r.Reason = strings.Repeat("r", maxText+1)
	line, err := r.line()
	if err != nil || len(line) > maxLine || bytes.Count(line, []byte("\n")) != 1 {
		t.Fatalf("got %d bytes, %v", len(line), err)
	}
	var got Record
	if err := json.Unmarshal(line, &got); err != nil || got.Omitted == 0 || got.Omitted+len(got.Files)+len(got.Problems)+len(got.Layers) != 15001 || len(got.Files) == 0 || len(got.Reason) != maxText {
		t.Errorf("got %d of the files, %d of the problems, %d of the layers, %d omitted, %v", len(got.Files), len(got.Problems), len(got.Layers), got.Omitted, err)
	}
	if len(r.Files) != 5001 {
		t.Error("the record itself was cut")
	}
	r = record(Clean)
	r.Start, r.Bundle, r.Files = "one", strings.Repeat("b", 2*maxLine), nil
	want := &Record{Schema: 1, Time: r.Time, Start: r.Start, Outcome: Clean, Seconds: r.Seconds}
	line, err = r.line()
	if err != nil || len(line) > maxLine || line[len(line)-1] != '\n' {
		t.Errorf("a long path: got %d bytes, %v", len(line), err)
	}
	if short, err := want.line(); err != nil || string(line) != string(short) {
		t.Errorf("a long path: got %s, want %s, %v", line, short, err)
	}
}

// vfix itself rotates the file, and so may others; it does not wait for anything other than a file.
func TestRecordFile(t *testing.T) {
	defer func(n int64) { maxFile = n }(maxFile)
	maxFile = 2000
	path := filepath.Join(t.TempDir(), "starts.jsonl")
	l := Log{Record: path}
	for range 50 {
		if err := l.Add(record(Clean)); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{path, path + ".1"} {
		fi, err := os.Stat(name)
		if err != nil || fi.Size() > maxFile+maxLine || fi.Mode().Perm() != 0o640 {
			t.Errorf("%s: got %v, %v", name, fi, err)
		}
	}
	if s, err := Read(path, 5); err != nil || s.Summary.Starts < 5 || s.Summary.Damaged != 0 || len(s.Last) != 5 {
		t.Errorf("got %+v, %v", s, err)
	}
	if err := os.Rename(path, path+".moved"); err != nil { // logrotate
		t.Fatal(err)
	}
	if err := l.Add(record(Clean)); err != nil {
		t.Error(err)
	}
	os.Remove(path)
	if err := unix.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	if err := l.Add(record(Clean)); err == nil || time.Since(begun) > time.Second {
		t.Errorf("a fifo: got %v after %v", err, time.Since(begun))
	}
	os.Remove(path)
	if err := os.Symlink("/etc/passwd", path); err != nil {
		t.Fatal(err)
	}
	if err := l.Add(record(Clean)); err == nil {
		t.Error("a symlink was followed")
	}
	if err := (Log{Record: None}).Add(record(Clean)); err != nil {
		t.Error(err)
	}
}

// A line that a full disk truncated is counted, and the others are read.
func TestDamagedLines(t *testing.T) {
	path := filepath.Join(t.TempDir(), "starts.jsonl")
	l := Log{Record: path}
	if err := l.Add(record(Clean)); err != nil {
		t.Fatal(err)
	}
	f, _ := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	fmt.Fprint(f, "{\"schema\":1,\"ti\n{}\n\n{\"outcome\":\"odd\"}\n")
	f.Close()
	if err := l.Add(record(Patched)); err != nil {
		t.Fatal(err)
	}
	if s, err := Read(path, 10); err != nil || s.Summary.Starts != 2 || s.Summary.Damaged != 3 || len(s.Last) != 2 {
		t.Errorf("got %+v, %v", s, err)
	}
	if s, err := Read(filepath.Join(t.TempDir(), "none"), 10); err != nil || s.Summary.Starts != 0 {
		t.Errorf("no file: got %+v, %v", s, err)
	}
	if _, err := Read(None, 1); err == nil {
		t.Error("what is not recorded was read")
	}
}

// The journal gets one datagram of NAME=VALUE lines.
func TestJournal(t *testing.T) {
	defer func(s string) { journalSocket = s }(journalSocket)
	journalSocket = filepath.Join(t.TempDir(), "socket")
	if err := (Log{Record: Journal}).Add(record(Clean)); err == nil {
		t.Error("no journald: no error")
	}
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if err := unix.Bind(fd, &unix.SockaddrUnix{Name: journalSocket}); err != nil {
		t.Fatal(err)
	}
	problem := record(Disabled)
	problem.Add("/lib/x", "unreadable")
	for _, c := range []struct {
		r        *Record
		priority int
	}{{record(Refused), 4}, {record(Unpatched), 4}, {problem, 4}, {record(Patched), 5}} {
		if err := (Log{Record: Journal}).Add(c.r); err != nil {
			t.Fatal(err)
		}
		buf := make([]byte, 2*maxLine)
		n, _, err := unix.Recvfrom(fd, buf, 0)
		if err != nil {
			t.Fatal(err)
		}
		head, message, ok := strings.Cut(string(buf[:n]), "\nMESSAGE=")
		if want := fmt.Sprintf("SYSLOG_IDENTIFIER=vfix-runtime\nPRIORITY=%d\nVFIX_OUTCOME=%s", c.priority, c.r.Outcome); !ok || head != want {
			t.Errorf("got %q, want %q", buf[:n], want)
		}
		var got Record
		if err := json.Unmarshal([]byte(message), &got); err != nil || got.Container != "c1" {
			t.Errorf("got %+v, %v", got, err)
		}
	}
	// One that does not read is not waited for.
	begun := time.Now()
	for err == nil && time.Since(begun) < time.Second {
		err = (Log{Record: Journal}).Add(record(Clean))
	}
	if err == nil || time.Since(begun) >= time.Second {
		t.Errorf("a journal that does not read: %v after %v", err, time.Since(begun))
	}
}

func FuzzRead(f *testing.F) {
	line, err := record(Patched).line()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(line)
	f.Add([]byte("{}\n{\"outcome\":\"x\",\"seconds\":{\"total\":-1e300}}\n"))
	f.Fuzz(func(_ *testing.T, b []byte) {
		s := &Status{Summary: Summary{Outcomes: map[Outcome]int{}}, open: map[string]bool{}}
		var all []float64
		_ = s.read(bytes.NewReader(b), 3, &all)
	})
}

func FuzzCounted(f *testing.F) {
	f.Add(counted(nil, record(Patched)))
	f.Add([]byte("vfix_runtime_patched_files_total NaN\nvfix_runtime_patched_files_total +Inf\n"))
	f.Fuzz(func(t *testing.T, old []byte) {
		text := counted(old, record(Patched))
		parser := expfmt.NewTextParser(model.LegacyValidation)
		if _, err := parser.TextToMetricFamilies(bytes.NewReader(text)); err != nil {
			t.Errorf("%v: %q", err, text)
		}
	})
}

func BenchmarkAdd(b *testing.B) {
	dir := b.TempDir()
	for name, l := range map[string]Log{"record": {Record: dir + "/starts.jsonl"}, "metrics": {Metrics: dir + "/vfix.prom"}} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if err := l.Add(record(Patched)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// A start counts once, whatever the number of its lines: the last one counts.
func TestStartOfTwoLines(t *testing.T) {
	l := Log{Record: filepath.Join(t.TempDir(), "starts.jsonl")}
	for _, r := range []*Record{
		{Start: "a", Container: "a", Outcome: NotStarted}, {Start: "b", Container: "b", Outcome: NotStarted},
		{Start: "c", Container: "c", Outcome: NotStarted}, {Container: "d", Outcome: Clean},
		{Start: "a", Container: "a", Outcome: Patched, Files: []File{{}}}, {Start: "c", Container: "c", Outcome: Refused},
		{Start: "e", Container: "e", Outcome: Patched},                                             // the first line is in a file that was rotated away
		{Container: "f", Outcome: NotStarted}, {Container: "g", Outcome: Disabled, CacheHit: true}, // of no name
	} {
		if err := l.Add(r); err != nil {
			t.Fatal(err)
		}
	}
	s, err := Read(l.Record, 9)
	if err != nil {
		t.Fatal(err)
	}
	got := ""
	for _, r := range s.Last {
		got += r.Container + ":" + string(r.Outcome) + " "
	}
	const want = "b:not started d:clean a:patched c:refused e:patched f:not started g:disabled "
	if got != want || s.Summary.Starts != 7 || s.Summary.Outcomes[NotStarted] != 2 || s.Summary.Looked != 4 || s.Summary.CacheHits != 0 {
		t.Errorf("got %s and %+v, want %s", got, s.Summary, want)
	}
}
