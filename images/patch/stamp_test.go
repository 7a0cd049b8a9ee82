package patch_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"vfix.dev/vfix/images/contents"
	"vfix.dev/vfix/images/patch"
	"vfix.dev/vfix/tests/imagetest"
)

// TestSince: with a stamp only what has changed is looked at, by ctime and not by mtime.
func TestSince(t *testing.T) {
	dir := t.TempDir()
	stampFile := filepath.Join(dir, "stamp")
	root := filepath.Join(dir, "root")
	write := func(name string) string {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(root, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, imagetest.LegacyELF(name), 0o755); err != nil {
			t.Fatal(err)
		}
		// As a package manager does: the time is that of the package.
		if err := os.Chtimes(path, imagetest.TestTime, imagetest.TestTime); err != nil {
			t.Fatal(err)
		}
		return path
	}
	patched := func() int {
		t.Helper()
		f, err := patch.All(context.Background(), []string{root}, patch.Options{InPlace: true, Since: stampFile})
		if err != nil {
			t.Fatal(err)
		}
		return len(f.Files)
	}
	write("old")
	before := time.Now()
	if got := patched(); got != 1 {
		t.Errorf("without a stamp: got %d files, want 1", got)
	}
	fi, err := os.Stat(stampFile)
	if err != nil || fi.ModTime().After(time.Now()) || fi.ModTime().Before(before.Add(-patch.StampMargin-time.Second)) {
		t.Fatalf("the stamp: got %v, %v", fi, err)
	}
	write("new")
	if got := patched(); got != 1 {
		t.Errorf("a new file: got %d files, want 1", got)
	}
	// A stamp that is later than all changes hides a file; the control of what --since does.
	write("hidden")
	future := time.Now().Add(time.Minute)
	d, err := contents.OpenDisk(root)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	d.Since = future
	session := imagetest.TestSession(t)
	found, err := d.Scan(context.Background(), session)
	if err != nil {
		t.Fatal(err)
	}
	if found.ELFFiles != 0 {
		t.Errorf("files from before the stamp: got %d looked at, want none", found.ELFFiles)
	}
	// A stamp from the future does not count.
	if err := os.Chtimes(stampFile, future, future); err != nil {
		t.Fatal(err)
	}
	if got := patched(); got != 1 {
		t.Errorf("a stamp from the future: got %d files, want the hidden one", got)
	}
	// After an error the stamp stays.
	fi, _ = os.Stat(stampFile)
	if _, err := patch.All(context.Background(), []string{root, filepath.Join(dir, "missing")}, patch.Options{InPlace: true, Since: stampFile}); err == nil {
		t.Fatal("a missing path: no error")
	}
	if now, _ := os.Stat(stampFile); !now.ModTime().Equal(fi.ModTime()) {
		t.Errorf("after an error: the stamp moved from %v to %v", fi.ModTime(), now.ModTime())
	}
	if _, err := patch.All(context.Background(), []string{root}, patch.Options{InPlace: true, Since: dir}); err == nil {
		t.Error("a directory for a stamp: no error")
	}
}
