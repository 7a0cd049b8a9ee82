package atomicfile_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"vfix.dev/vfix/images/atomicfile"
	"vfix.dev/vfix/internal/hinterr"
	"vfix.dev/vfix/tests/imagetest"
)

// A file has its name once it is committed, and no error leaves anything of it.
func TestCommit(t *testing.T) {
	boom := errors.New("boom")
	for _, c := range []struct {
		name  string
		spoil func(t *testing.T, f *atomicfile.File) error
		want  error
	}{
		{"nothing wrong", func(*testing.T, *atomicfile.File) error { return nil }, nil},
		{"not committed", func(*testing.T, *atomicfile.File) error { return boom }, boom},
		{"closed", func(_ *testing.T, f *atomicfile.File) error { return f.File.Close() }, fs.ErrClosed},
		{"a directory has its name", func(_ *testing.T, f *atomicfile.File) error { return os.MkdirAll(f.Final+"/x", 0o700) }, fs.ErrExist},
	} {
		path := filepath.Join(t.TempDir(), "out")
		f, release, err := atomicfile.CreateLocked(t.Context(), path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err = c.spoil(t, f); err == nil {
			err = f.Commit()
		}
		release()
		if !errors.Is(err, c.want) {
			t.Errorf("%s: got %v, want %v", c.name, err, c.want)
		}
		if _, err := os.Lstat(path); (err == nil) != (c.want == nil || c.want == fs.ErrExist) {
			t.Errorf("%s: the file: %v", c.name, err)
		}
		imagetest.WantEmpty(t, filepath.Dir(path), "out")
	}
}

// A symlink stays, and its target is replaced; only a file is.
func TestReplaced(t *testing.T) {
	dir := t.TempDir()
	file, link := imagetest.Write(t, filepath.Join(dir, "file"), nil), filepath.Join(dir, "link")
	if err := errors.Join(os.Symlink("file", link), atomicfile.Write(link, []byte("new"))); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(file); err != nil || string(got) != "new" {
		t.Errorf("the target: got %q, %v", got, err)
	}
	if to, err := os.Readlink(link); err != nil || to != "file" {
		t.Errorf("the link: got %q, %v", to, err)
	}
	_, _, locked := atomicfile.CreateLocked(t.Context(), dir, nil)
	_, device := atomicfile.Lock(t.Context(), os.DevNull, nil)
	for what, err := range map[string]error{"write": atomicfile.Write(dir, nil), "create": locked, "lock": device} {
		if err == nil || !strings.Contains(err.Error(), "not a regular file") || hinterr.HintOf(err) == "" {
			t.Errorf("%s: got %v", what, err)
		}
	}
	// A file that exists can be locked, and no lock is left where the file could not be made.
	imagetest.Must[func()](t)(atomicfile.Lock(t.Context(), file, nil))()
	imagetest.WantEmpty(t, dir, "file", "link")
	imagetest.WantEmpty(t, filepath.Dir(dir), filepath.Base(dir))
}

func TestWriteDir(t *testing.T) {
	boom := errors.New("boom")
	file := func(in string) error { return os.WriteFile(filepath.Join(in, "new"), nil, 0o600) }
	for _, c := range []struct {
		name   string
		before func(path string) error
		fill   func(temp string) error
		ok     bool
	}{
		{"a new one", func(string) error { return nil }, file, true},
		{"in place of an empty one", func(path string) error { return os.Mkdir(path, 0o700) }, file, true},
		{"in place of a full one", func(path string) error { return os.MkdirAll(path+"/old", 0o700) }, file, false},
		{"an error", func(string) error { return nil }, func(temp string) error { return errors.Join(file(temp), boom) }, false},
		{"no directory around it", func(path string) error { return os.Remove(filepath.Dir(path)) }, file, false},
	} {
		around := filepath.Join(t.TempDir(), "around")
		path := filepath.Join(around, "out")
		if err := errors.Join(os.Mkdir(around, 0o700), c.before(path)); err != nil {
			t.Fatal(err)
		}
		err := atomicfile.WriteDir(path+"/", 0o500, c.fill)
		if (err == nil) != c.ok {
			t.Errorf("%s: got %v", c.name, err)
		}
		if _, err := os.Lstat(filepath.Join(path, "new")); (err == nil) != c.ok {
			t.Errorf("%s: its file: %v", c.name, err)
		}
		if fi, err := os.Lstat(path); c.ok && (err != nil || fi.Mode().Perm() != 0o500) {
			t.Errorf("%s: got the mode %v, %v", c.name, fi.Mode(), err)
		}
		if _, err := os.Lstat(around); err == nil {
			imagetest.WantEmpty(t, around, "out")
		}
		os.Chmod(path, 0o700) // for the end of the test
	}
}

// Leftovers in a directory go when its lock is free, and stay while somebody else is in it.
func TestEnter(t *testing.T) {
	dir := t.TempDir()
	root := imagetest.Must[*os.Root](t)(os.OpenRoot(dir))
	defer root.Close()
	write := func() string { return imagetest.Write(t, filepath.Join(dir, atomicfile.DirName()), nil) }
	imagetest.Write(t, filepath.Join(dir, ".vfix-in-mine"), nil)
	write()
	leave := imagetest.Must[func()](t)(atomicfile.Enter(root))
	imagetest.WantEmpty(t, dir, ".vfix-in-mine")
	used := write()
	imagetest.Must[func()](t)(atomicfile.Enter(root))()
	if _, err := os.Lstat(used); err != nil {
		t.Errorf("in use: %v", err)
	}
	leave()
	imagetest.Must[func()](t)(atomicfile.Enter(root))()
	imagetest.WantEmpty(t, dir, ".vfix-in-mine")
	root.Close()
	if _, err := atomicfile.Enter(root); err == nil {
		t.Error("no directory: no error")
	}
}
