//go:build linux

package store

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Versions of vfix with other layouts use the same directory: none sees or removes the entries of another.
func TestLayouts(t *testing.T) {
	s := open(t, 0)
	base := filepath.Dir(s.Dir)
	later := filepath.Join(base, "v3", "objects")
	if err := os.MkdirAll(later, privateDir); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(later, "x"), []byte("later"), privateFile); err != nil {
		t.Fatal(err)
	}
	ours := put(t, s, "k", "abc")
	old(t, ours, time.Hour)
	if _, err := s.Prune(-1); err != nil {
		t.Fatal(err)
	}
	all, err := s.Others()
	if err != nil || len(all) != 1 || all[0].Name != "v3" || all[0].Bytes < 5 {
		t.Errorf("got %+v, %v", all, err)
	}
}
