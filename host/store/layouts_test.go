//go:build linux

package store

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Versions of vfix with other layouts work on the same folder: none sees the other's entries or
// removes them.
func TestLayouts(t *testing.T) {
	s := open(t, 0)
	base := filepath.Dir(s.Dir)
	first := &Store{Dir: base, base: base} // as the first layout was
	if err := first.folders(); err != nil {
		t.Fatal(err)
	}
	older := put(t, first, "old", "abc")
	later := filepath.Join(base, "v3", "objects")
	if err := os.MkdirAll(later, privateDir); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(later, "x"), []byte("later"), privateFile); err != nil {
		t.Fatal(err)
	}
	ours := put(t, s, "k", "abc")
	if _, ok := s.Get("old", 3); ok {
		t.Error("an entry of another layout was taken")
	}
	old(t, ours, time.Hour)
	old(t, older, time.Hour)
	if _, err := s.Prune(-1); err != nil {
		t.Fatal(err)
	}
	all, err := s.Others()
	if err != nil || len(all) != 2 || all[0].Name != "v1" || !all[0].Known || all[1].Name != "v3" || all[1].Known {
		t.Fatalf("got %+v, %v", all, err)
	}
	if all[0].Bytes < 3 || all[1].Bytes < 5 {
		t.Errorf("bytes: got %d and %d", all[0].Bytes, all[1].Bytes)
	}
	if s.Older(all[1]) != nil {
		t.Error("an unknown layout can be pruned")
	}
	// A downgrade: the older version goes on with what it had.
	if got, ok := first.Get("old", 3); !ok || got != older {
		t.Errorf("got %q, %v, want the older version's entry", got, ok)
	}
	old(t, older, time.Hour)
	if gone, err := s.Older(all[0]).Prune(-1); err != nil || len(gone) != 1 {
		t.Errorf("got %v, %v, want one entry of the first layout gone", gone, err)
	}
	if all, err = s.Others(); err != nil || len(all) != 1 {
		t.Errorf("got %+v, %v, want v3 alone", all, err)
	}
}
