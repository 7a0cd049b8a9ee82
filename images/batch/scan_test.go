package batch_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"vfix.dev/vfix/images/batch"
	"vfix.dev/vfix/images/media"
	"vfix.dev/vfix/images/outcome"
	"vfix.dev/vfix/images/registry"
	"vfix.dev/vfix/internal/patterns"
	"vfix.dev/vfix/rewriter/find"
	"vfix.dev/vfix/tests/imagetest"
)

// A scan of a list resumes as a rebuild does, and their lines in one state file are apart.
func TestScanList(t *testing.T) {
	imagetest.CleanTemp(t)
	f := imagetest.NewRegistry(t)
	items, base := batchOf(t, f)
	state := filepath.Join(t.TempDir(), "state")
	lo, o := listOptions(f, state)
	l := imagetest.Must[*batch.List](t)(listOf(t, items, lo))
	scan := func(want string) {
		t.Helper()
		f.Reset(nil)
		r := &ran{}
		o.Each = func(out outcome.Image) error {
			r.Outcomes = append(r.Outcomes, out)
			return nil
		}
		b, err := batch.Scan(context.Background(), l, o)
		slices.SortFunc(r.Outcomes, func(a, b outcome.Image) int { return a.Line - b.Line })
		if err != nil || statuses(r) != want {
			t.Fatalf("got %s, %v, want %s", statuses(r), err, want)
		}
		if first := r.Outcomes[0]; b.Of[outcome.Affected] != 2 || first.Patched == 0 || first.Files != 1 || first.Dest != "" {
			t.Errorf("%+v, %+v", b, first)
		}
	}
	scan("affected, failed, affected, unaffected")
	if n := f.Count("GET /v2/app0/blobs/"+base) + f.Count("GET /v2/app1/blobs/"+base); n != 1 || f.Count("PUT ")+f.Count("POST ") != 0 {
		t.Errorf("the common layer was read %d times: %q", n, f.Seen)
	}
	scan("affected before, failed, affected before, unaffected before")
	if n := len(slices.DeleteFunc(slices.Clone(f.Seen), func(s string) bool { return s == "GET /v2/" || strings.Contains(s, "/bad/") })); n != 3 {
		t.Errorf("%d requests for three images: %q", n, f.Seen)
	}
	// A rebuild is not satisfied by a scan, and stays rebuilt.
	o.Each = nil
	for _, want := range []string{"done, failed, done, unaffected", "done before, failed, done before, unaffected before"} {
		if b, err := rebuild(context.Background(), t, items, lo, o); err != nil || statuses(b) != want {
			t.Errorf("%s, %v", statuses(b), err)
		}
	}
	scan("affected before, failed, affected before, unaffected before")
	if text := string(imagetest.Must[[]byte](t)(os.ReadFile(state))); strings.Count(text, `"verb":"scan"`) != 6 {
		t.Errorf("state:\n%s", text)
	}

	// A scan without a fix has not found what a scan for it would find.
	o.Rewriter.Fixes = find.Fixes
	scan("affected, failed, affected, unaffected")
	o.Rewriter.Fixes = nil
	scan("affected, failed, affected, unaffected")
}

// Images that are wanted first come first, and no registry gets more requests than allowed.
func TestOrderAndRate(t *testing.T) {
	f := imagetest.NewRegistry(t)
	items, _ := batchOf(t, f)
	lo, o := listOptions(f, "")
	lo.First, o.AtOnce = patterns.Image("*app1:*"), 1
	var order []string
	o.Each = func(out outcome.Image) error {
		order = append(order, filepath.Base(out.Source))
		return nil
	}
	const perSecond = 100
	o.Media = media.Options{Options: registry.Options{Retry: imagetest.Fast.Retry, PerSecond: perSecond}}
	f.Reset(func(http.ResponseWriter, *http.Request) bool { return false })
	begin := time.Now()
	if b, err := rebuild(context.Background(), t, items, lo, o); err != nil || statuses(b) != "done, failed, done, unaffected" {
		t.Fatalf("%s, %v", statuses(b), err)
	}
	if took, n := time.Since(begin), len(f.Seen); took < time.Duration(n-1)*time.Second/perSecond {
		t.Errorf("%d requests in %v", n, took)
	}
	if got := strings.Join(order, " "); got != "app1:1 app0:1 bad:1 odd:1" {
		t.Errorf("the order: %s", got)
	}
}

// The results of bases that are gone are listed, and no others.
func TestGone(t *testing.T) {
	f := imagetest.NewRegistry(t)
	items, _ := batchOf(t, f)
	dir := t.TempDir()
	lo, o := listOptions(f, dir)
	if b, err := rebuild(context.Background(), t, items, lo, o); err != nil || statuses(b) != "done, failed, done, unaffected" {
		t.Fatalf("%s, %v", statuses(b), err)
	}
	gone := func(path string) string {
		t.Helper()
		var got []string
		err := batch.Gone(context.Background(), path, imagetest.Fast, func(stored string) error {
			got = append(got, stored)
			return nil
		}, func(source string, why error) { t.Errorf("%s: %v", source, why) })
		if err != nil {
			t.Error(err)
		}
		return strings.Join(got, " ")
	}
	if got := gone(dir); got != "" {
		t.Errorf("nothing is gone: got %s", got)
	}
	f.Reset(func(w http.ResponseWriter, r *http.Request) bool {
		if strings.HasPrefix(r.URL.Path, "/v2/app1/") {
			w.WriteHeader(http.StatusNotFound)
			return true
		}
		return false
	})
	for _, path := range []string{dir, filepath.Join(dir, "0-of-1.jsonl")} {
		if got, want := gone(path), "docker://"+f.Host+"/new/app1:1"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	// Its result stays listed when a later run finds no base, but not if it became that of another base.
	own := filepath.Join(dir, "0-of-1.jsonl")
	if _, err := rebuild(context.Background(), t, items, lo, o); err != nil {
		t.Fatal(err)
	}
	if got, want := gone(own), "docker://"+f.Host+"/new/app1:1"; got != want {
		t.Errorf("after a failure: got %s, want %s", got, want)
	}
	lines := imagetest.Must[[]byte](t)(os.ReadFile(own))
	moved := bytes.ReplaceAll(lines, []byte("/app1:1\",\"dest"), []byte("/app0:1\",\"dest"))
	imagetest.Write(t, filepath.Join(dir, "0-of-2.jsonl"), moved)
	if got := gone(dir); got != "" {
		t.Errorf("a result of another base: got %s", got)
	}
	imagetest.Write(t, filepath.Join(dir, "0-of-2.jsonl"), nil)
	// A registry that does not answer has not lost its images, and one that is gone beside them is listed.
	f.Reset(func(w http.ResponseWriter, r *http.Request) bool {
		switch {
		case strings.HasPrefix(r.URL.Path, "/v2/app0/"):
			w.WriteHeader(http.StatusForbidden)
		case strings.HasPrefix(r.URL.Path, "/v2/app1/"):
			w.WriteHeader(http.StatusNotFound)
		default:
			return false
		}
		return true
	})
	var got, unknown []string
	err := batch.Gone(context.Background(), dir, imagetest.Fast,
		func(stored string) error { got = append(got, stored); return nil },
		func(source string, why error) { unknown = append(unknown, fmt.Sprint(source, " ", why)) })
	if err != nil || len(got) != 1 || len(unknown) != 1 || !strings.Contains(unknown[0], "/app0:1 ") || !strings.Contains(got[0], "/app1:1") {
		t.Errorf("got %q, unknown %q, %v", got, unknown, err)
	}
	none := func(string) error { t.Error("listed"); return nil }
	if err := batch.Gone(context.Background(), dir+"/none", imagetest.Fast, none, nil); err == nil {
		t.Error("no error for a state that is missing")
	}
}
