package ociruntime

import (
	"crypto/sha256"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"vfix.dev/vfix/host/rootfs"
	"vfix.dev/vfix/host/store"
)

// A file with other content than expected is not copied, whatever its times are; later writes to it are not in the
// snapshot.
func TestSnapshot(t *testing.T) {
	dir := t.TempDir()
	s, err := store.Open(filepath.Join(dir, "cache"), 0)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "f")
	if err := os.WriteFile(path, []byte("abc"), 0o600); err != nil {
		t.Fatal(err)
	}
	root, err := rootfs.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	f, err := root.OpenFile("f")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	k := &container{store: s}
	other := sha256.Sum256([]byte("abd"))
	if _, err := k.snapshot(f, &legacyFile{ID: f.ID(), SHA256: other[:]}); !errors.Is(err, rootfs.ErrChanged) {
		t.Errorf("another content: got %v, want %v", err, rootfs.ErrChanged)
	}
	is := sha256.Sum256([]byte("abc"))
	got, err := k.snapshot(f, &legacyFile{ID: f.ID(), SHA256: is[:]})
	if err != nil {
		t.Fatal(err)
	}
	defer got.Close()
	if err := os.WriteFile(path, []byte("xyz"), 0o600); err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(io.NewSectionReader(got, 0, f.Stat.Size))
	if err != nil || string(b) != "abc" {
		t.Errorf("got %q, %v, want abc", b, err)
	}
}
