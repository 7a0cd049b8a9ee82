package atomicfile_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"vfix.dev/vfix/internal/atomicfile"
)

// names lists a directory.
func names(t *testing.T, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return strings.Join(all, " ")
}

// A file has its old content until Commit, and its temporary file is gone after Discard.
func TestFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	if err := os.WriteFile(path, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	os.Symlink("file", filepath.Join(dir, "link"))
	for _, commit := range []bool{false, true} {
		f, err := atomicfile.Create(filepath.Join(dir, "link"))
		if err != nil {
			t.Fatal(err)
		}
		f.WriteString("new")
		if b, _ := os.ReadFile(path); string(b) != "old" {
			t.Errorf("before: got %q", b)
		}
		if commit {
			if err := f.Commit(); err != nil {
				t.Fatal(err)
			}
		}
		f.Discard()
		b, _ := os.ReadFile(path)
		if want := map[bool]string{true: "new", false: "old"}[commit]; string(b) != want || names(t, dir) != "file link" {
			t.Errorf("commit %v: got %q, files %s", commit, b, names(t, dir))
		}
	}
	if fi, _ := os.Lstat(path); fi.Mode() != 0o600 {
		t.Errorf("the private file has the mode %v", fi.Mode())
	}
	for bad, want := range map[string]string{dir: "not a regular file", filepath.Join(dir, "no", "x"): "no directory"} {
		if _, err := atomicfile.Create(bad); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v", bad, err)
		}
	}
}

// A directory exists when it is complete, or not at all; one that has something in it stays.
func TestWriteDir(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "out")
	fill := func(result error) func(string) error {
		return func(temp string) error {
			os.Mkdir(filepath.Join(temp, "sub"), 0o500)
			return errors.Join(os.WriteFile(filepath.Join(temp, "a"), nil, 0o644), result)
		}
	}
	if err := atomicfile.WriteDir(path, 0o755, fill(errors.New("no"))); err == nil || names(t, dir) != "" {
		t.Errorf("a failure: got %v, files %s", err, names(t, dir))
	}
	os.Mkdir(path, 0o755)
	if err := atomicfile.WriteDir(path+"/", 0o755, fill(nil)); err != nil || names(t, path) != "a sub" {
		t.Errorf("got %v, files %s", err, names(t, path))
	}
	if err := atomicfile.WriteDir(path, 0o755, fill(nil)); !errors.Is(err, fs.ErrExist) || names(t, dir) != "out" {
		t.Errorf("there is one: got %v, files %s", err, names(t, dir))
	}
}
