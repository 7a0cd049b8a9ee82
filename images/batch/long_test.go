package batch_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"

	"vfix.dev/vfix/images/batch"
	"vfix.dev/vfix/images/outcome"
	"vfix.dev/vfix/tests/imagetest"
)

// longList is how many lines the tests of long lists have.
const longList = 100_000

// A list takes a few bytes a line, and so does a state file.
func TestLongList(t *testing.T) {
	dir := t.TempDir()
	list, state := filepath.Join(dir, "list"), filepath.Join(dir, "state")
	write := func(path string, line func(n int) string) {
		f := imagetest.Must[*os.File](t)(os.Create(path))
		w := bufio.NewWriter(f)
		for n := range longList {
			fmt.Fprintln(w, line(n))
		}
		if err := errors.Join(w.Flush(), f.Close()); err != nil {
			t.Fatal(err)
		}
	}
	name := func(n int) string { return fmt.Sprintf("docker://127.0.0.1:1/team%d/application%d:1.2.3", n%100, n) }
	write(list, name)
	write(state, func(n int) string {
		return fmt.Sprintf(`{"schema":1,"source":"%s","dest":"%s-x","status":"done","time":"2026-01-02T03:04:05Z","base_digest":"sha256:%064d","options":"x","stored":"y","digest":"sha256:%064d"}`, name(n), name(n), n, n)
	})
	before := heap()
	l, err := batch.OpenList(list, batch.ListOptions{Template: "docker://127.0.0.1:1/{repository}:{tag}-x"})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if l.Count() != longList {
		t.Errorf("%d lines", l.Count())
	}
	enough := errors.New("enough")
	const most = 40 // bytes a line, of both
	_, o := listOptions(imagetest.NewRegistry(t), state)
	o.Each = func(outcome.Image) error {
		if used := heap() - before; used > longList*most {
			t.Errorf("%d bytes a line", used/longList)
		}
		return enough
	}
	if _, err := batch.Rebuild(context.Background(), l, o); !errors.Is(err, enough) {
		t.Errorf("got %v", err)
	}
}

func heap() int {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

// Of each image a state file keeps one line, the last; an older one that was written
// meanwhile by another part does not count.
func TestStateIsCompacted(t *testing.T) {
	f := imagetest.NewRegistry(t)
	items, _ := batchOf(t, f)
	items = []outcome.Item{items[0], items[2], items[3]}
	state := filepath.Join(t.TempDir(), "state")
	lo, o := listOptions(f, state)
	if b, err := rebuild(context.Background(), t, items, lo, o); err != nil || statuses(b) != "done, done, unaffected" {
		t.Fatalf("%s, %v", statuses(b), err)
	}
	good := imagetest.Must[[]byte](t)(os.ReadFile(state))
	old := bytes.ReplaceAll(good, []byte(`"base_digest":"sha256:`), []byte(`"base_digest":"sha256:0`))
	other := `{"schema":1,"source":"docker://r.example/other:1","status":"failed","options":"é"}` + "\n" // not in this list
	text := other + strings.Repeat(string(old), batch.MinCompacted/len(old)+1) + string(good) + `{"schema":1,"sou`
	imagetest.Write(t, state, []byte(text))
	again := func() {
		t.Helper()
		if b, err := rebuild(context.Background(), t, items, lo, o); err != nil || statuses(b) != "done before, done before, unaffected before" {
			t.Errorf("%s, %v", statuses(b), err)
		}
		if left := imagetest.Must[[]os.DirEntry](t)(os.ReadDir(filepath.Dir(state))); len(left) != 1 {
			t.Errorf("left behind: %v", left)
		}
	}
	again()
	if got := imagetest.Must[[]byte](t)(os.ReadFile(state)); string(got) != other+string(good) {
		t.Errorf("got\n%s\nwant\n%s", got, other+string(good))
	}

	// A short one is left alone.
	short := string(old) + string(good)
	imagetest.Write(t, state, []byte(short))
	again()
	if got := imagetest.Must[[]byte](t)(os.ReadFile(state)); string(got) != short {
		t.Errorf("got\n%s", got)
	}

	// In a directory the latest line about an image counts, whatever file it is in.
	dir := t.TempDir()
	o.State = dir
	for name, text := range map[string][]byte{"1-of-2": good, "0-of-3": old} {
		year := map[string]string{"1-of-2": "2030", "0-of-3": "2029"}[name]
		imagetest.Write(t, filepath.Join(dir, name+".jsonl"), dated(text, year))
	}
	if b, err := rebuild(context.Background(), t, items, lo, o); err != nil || statuses(b) != "done before, done before, unaffected before" {
		t.Errorf("%s, %v", statuses(b), err)
	}
	imagetest.Write(t, filepath.Join(dir, "0-of-3.jsonl"), dated(old, "2031"))
	if b, err := rebuild(context.Background(), t, items, lo, o); err != nil || statuses(b) != "done, done, unaffected" {
		t.Errorf("%s, %v", statuses(b), err)
	}
}

// A line that a full disk cuts off spoils none that an image gets which is finished after it.
func TestStateAfterFullDisk(t *testing.T) {
	state := filepath.Join(t.TempDir(), "state")
	out := outcome.Image{Item: outcome.Item{Source: "docker://r.example/app:1"}, Status: outcome.Unaffected}
	for range 2 {
		if err := batch.AddAfterCut(state, out); err != nil {
			t.Fatal(err)
		}
	}
	text := imagetest.Must[[]byte](t)(os.ReadFile(state))
	if n := bytes.Count(text, []byte("\n")); n != 4 || bytes.Count(text, []byte("schema")) != n {
		t.Errorf("got\n%s", text)
	}
}

// dated gives all lines of a state another year.
func dated(state []byte, year string) []byte {
	const key = `"time":"`
	out := bytes.Clone(state)
	for at := 0; ; {
		n := bytes.Index(out[at:], []byte(key))
		if n < 0 {
			return out
		}
		at += n + len(key)
		copy(out[at:], year)
	}
}

// The parser without go-containerregistry gives the same as go-containerregistry's.
func TestPlainName(t *testing.T) {
	for text, plain := range map[string]bool{
		"r.example/a/b:1": true, "r:5000/ab:V1.2_3-x": true, "10.0.0.1:80/a--b/c_d:1": true, "localhost:5000/a/b/c:x": true,
		"r.example/ab": false, "r.example/ab:": false, "team/app:1": false, "localhost/ab:1": false, "docker.io/library/redis:1": false, "index.docker.io/redis:1": false,
		"r.example/ab@sha256:0": false, "r.example/ab:1@sha256:0": false, "r.example/Ab:1": false, "r.example/a:1": false, "r.example:/ab:1": false,
		"r.example/a b:1": false, "r.exam_ple/ab:1": false, "r.example/ab:é": false, "R.example/ab:1": false, "r.example/ab:" + strings.Repeat("1", 128): false,
	} {
		registry, repository, tag, ok := batch.PlainName(text)
		if ok != plain {
			t.Errorf("%s: got %v", text, ok)
		}
		if !ok {
			continue
		}
		n, err := name.NewTag(text)
		if err != nil || n.Name() != text || n.RegistryStr() != registry || n.RepositoryStr() != repository || n.TagStr() != tag {
			t.Errorf("%s: got %s, %s, %s, want %v (%v)", text, registry, repository, tag, n, err)
		}
	}
}
