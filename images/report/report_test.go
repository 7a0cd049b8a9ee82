package report

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"vfix.dev/vfix/images/outcome"
)

// rows are images of a list, in the order in which they ended.
var rows = []outcome.Image{
	{Item: outcome.Item{Line: 3, Source: "=cmd|x"}, Status: outcome.NotRun, Error: "an <error>", Hint: "a hint"},
	{Item: outcome.Item{Line: 1, Source: "app:1", Dest: "app:2"}, Status: outcome.Done, Reference: "app@sha256:ab", LayerSize: 1024, Patched: 2, Files: 1, Warnings: []string{"a", "b"}},
	{Item: outcome.Item{Line: 7, Source: "-x"}, Status: outcome.Unaffected, LayerSize: 1023},
}

func TestFile(t *testing.T) {
	for ending, want := range map[string][]string{
		".csv":   {"line,source,dest,status,", "\n3,'=cmd|x,,not run,", "\n1,app:1,app:2,done,", ",1024,", ",a; b,", "\n7,'-x,,unaffected,"},
		".jsonl": {`{"line":3,"source":"=cmd|x",`, `"error":"an <error>"`, "\n" + `{"line":1,`, `"warnings":["a","b"]`, "\n" + `{"line":7,`},
		".html": {"<title>A title: report", "About it", `<tr class="not-run">`, "an &lt;error&gt;<small>a hint</small>", "in 1 file</small>", "1.0 KiB", "<td>app<small>sha256:ab</small>",
			"1023 B", "</tbody>", "<p>The sums</p>", "<p>Next: go on</p>", "</html>"},
	} {
		name := filepath.Join(t.TempDir(), "report"+ending)
		if err := os.WriteFile(name, []byte("what was there"), 0o600); err != nil {
			t.Fatal(err)
		}
		f, err := Create(name, Head{"A title", "About it"})
		if err != nil {
			t.Fatal(err)
		}
		for n, row := range rows {
			if err := f.Add(row); err != nil {
				t.Fatal(err)
			}
			if got, err := os.ReadFile(name); err != nil || !strings.Contains(string(got), strings.TrimLeft(row.Source, "=")) {
				t.Errorf("%s: row %d is not in the file yet: %v", ending, n, err)
			}
		}
		if err := f.Close(Tail{"The sums", "go on"}); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(name)
		rest := string(got)
		for _, text := range want { // in this order
			before, after, found := strings.Cut(rest, text)
			if rest = after; !found {
				t.Fatalf("%s: no %q in %q", ending, text, before)
			}
		}
		if err != nil || strings.Contains(string(got), "what was there") {
			t.Errorf("%s: got %s, %v", ending, got, err)
		}
		if err := f.Add(rows[0]); !errors.Is(err, os.ErrClosed) || !strings.Contains(err.Error(), "report "+name) {
			t.Errorf("%s: closed: got %v", ending, err)
		}
		if err := f.Close(Tail{}); !errors.Is(err, os.ErrClosed) {
			t.Errorf("%s: closed twice: got %v", ending, err)
		}
	}
	none, err := Create("", Head{})
	if err := errors.Join(err, none.Add(rows[0]), none.Close(Tail{})); err != nil || none != nil {
		t.Errorf("no report: got %v, %v", none, err)
	}
	if _, err := Create(t.TempDir()+"/none/x.csv", Head{}); !errors.Is(err, os.ErrNotExist) || !strings.HasPrefix(err.Error(), "report: ") {
		t.Errorf("no directory: got %v", err)
	}
	if _, err := os.Stat("/dev/full"); err == nil {
		full := filepath.Join(t.TempDir(), "x.html")
		if err := os.Symlink("/dev/full", full); err != nil {
			t.Fatal(err)
		}
		if _, err := Create(full, Head{}); err == nil || !strings.HasPrefix(err.Error(), "report "+full+": ") {
			t.Errorf("a full disk: got %v", err)
		}
	}
}

func TestSize(t *testing.T) {
	for n, want := range map[int64]string{0: "", 1: "1 B", 1023: "1023 B", 1024: "1.0 KiB", 1536: "1.5 KiB", 1 << 20: "1.0 MiB", 3 << 30: "3.0 GiB"} {
		if got := size(n); got != want {
			t.Errorf("%d: got %q, want %q", n, got, want)
		}
	}
}

// Rows come in the order of the list, each as it was added, and lines without one are skipped.
func TestRows(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	var r Rows
	defer r.Close()
	if _, ok, err := r.InOrder().Get(1); ok || err != nil {
		t.Errorf("no rows: got %v, %v", ok, err)
	}
	for _, row := range rows {
		if err := r.Add(row); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		c := r.InOrder()
		for line := range 9 {
			row, ok, err := c.Get(line)
			if want := line == 1 || line == 3 || line == 7; ok != want || err != nil {
				t.Errorf("line %d: got %v, %v", line, ok, err)
			}
			if ok && (row.Line != line || !hasRow(row)) {
				t.Errorf("line %d: got %+v", line, row)
			}
		}
	}
	if row, ok, err := r.InOrder().Get(3); !ok || err != nil || row.Hint != "a hint" {
		t.Errorf("from line 3 on: got %+v, %v", row, err)
	}
	r.end = 5
	if _, _, err := r.InOrder().Get(3); !errors.Is(err, io.EOF) || !strings.HasPrefix(err.Error(), "temporary file: ") {
		t.Errorf("a file that was cut off: got %v", err)
	}
	r.f.Close()
	if err := r.Add(rows[0]); !errors.Is(err, os.ErrClosed) || !strings.HasPrefix(err.Error(), "temporary file: ") {
		t.Errorf("a closed file: got %v", err)
	}
}

// hasRow reports whether a row is one of those that were added.
func hasRow(row outcome.Image) bool {
	for _, r := range rows {
		if r.Source == row.Source && r.Status == row.Status && r.LayerSize == row.LayerSize {
			return true
		}
	}
	return false
}
