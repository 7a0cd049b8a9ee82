package ociruntime

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"vfix.dev/vfix/host/starts"
	"vfix.dev/vfix/host/store"
)

// The users of a copy are found by its content in the recorded starts, last one first.
func TestUsedBy(t *testing.T) {
	s, err := store.Open(t.TempDir(), 1<<30)
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"used", "unused"} {
		if _, err := s.Put(key, 1, func(f *os.File) error {
			_, err := f.WriteString("content of " + key)
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	log := starts.Log{Record: filepath.Join(t.TempDir(), "starts.jsonl")}
	for _, r := range []starts.Record{
		{Container: "0123456789abcdef", Files: []starts.File{{Path: "/lib/libc.so.6", After: s.SHA256("used")}}},
		{Container: "b", Image: "redis:2.8", Files: []starts.File{{Path: "/lib/libc.so.6", After: s.SHA256("used")}}},
		{Container: "c", Image: "other:1", Files: []starts.File{{Path: "/lib/libc.so.6", After: "another"}}},
		{Container: "d", Image: "redis:2.8", Files: []starts.File{{Path: "/lib/libc.so.6", After: s.SHA256("used")}}},
	} {
		r.Outcome = starts.Patched
		if err := log.Add(&r); err != nil {
			t.Fatal(err)
		}
	}
	entries, err := s.List()
	if err != nil || len(entries) != 2 {
		t.Fatalf("got %v, %v", entries, err)
	}
	got := usedBy(s, entries, log.Record)
	if want := []string{"redis:2.8", "container 0123456789ab"}; !slices.Equal(got["used"], want) || len(got["unused"]) != 0 {
		t.Errorf("got %q, want %q for one", got, want)
	}
	if got := usedBy(s, entries, starts.None); len(got) != 0 {
		t.Errorf("without a record: got %q", got)
	}
}
