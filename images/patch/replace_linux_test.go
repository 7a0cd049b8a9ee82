package patch

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// TestLinkStaysInDir: a directory of somebody else's, replaced by a symlink while names are given,
// leads nowhere.
func TestLinkStaysInDir(t *testing.T) {
	dir := t.TempDir()
	for _, d := range []string{"a", "b", "outside"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	a, aerr := root.OpenRoot("a")
	b, err := root.OpenRoot("b")
	if err := errors.Join(aerr, err); err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	defer b.Close()
	if err := a.WriteFile("new", []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	// Both directories move, and what has their names is somebody's choice.
	for _, d := range []string{"a", "b"} {
		if err := os.Rename(filepath.Join(dir, d), filepath.Join(dir, d+"-moved")); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink("outside", filepath.Join(dir, d)); err != nil {
			t.Fatal(err)
		}
	}
	os.WriteFile(filepath.Join(dir, "outside", "new"), []byte("secret"), 0o600)
	if err := linkAt(a, "new", b, "linked"); err != nil {
		t.Error(err)
	}
	if got, err := os.ReadFile(filepath.Join(dir, "b-moved", "linked")); string(got) != "x" {
		t.Errorf("in the directory: got %q, %v, want the file", got, err)
	}
	if _, err := os.Lstat(filepath.Join(dir, "outside", "linked")); err == nil {
		t.Error("a name outside of the directory")
	}
	// The same directory is not a different case.
	if err := linkAt(b, "linked", b, "again"); err != nil {
		t.Error(err)
	}
}
