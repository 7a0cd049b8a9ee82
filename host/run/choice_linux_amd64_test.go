package run

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"vfix.dev/vfix/rewriter/find"
)

// The way that the user chose, in place of the one that fits the program.
func TestOverride(t *testing.T) {
	static, dynamic := &find.Program{Static: true}, &find.Program{}
	for _, c := range []struct {
		way, want Way
		is        *find.Program
		fails     string
	}{
		{Preload, "", dynamic, ""}, {Preload, Auto, dynamic, ""}, {Preload, Preload, dynamic, ""}, {Memfd, Memfd, static, ""},
		{Preload, Trace, dynamic, ""}, {Memfd, Trace, static, ""}, {Trace, Preload, dynamic, ""}, {Trace, AsIs, static, ""},
		{Memfd, Preload, static, "a static program does not load libraries"}, {Preload, Memfd, dynamic, "whose libraries also have call sites"},
		{AsIs, Memfd, static, "--way memfd: because"},
	} {
		is := choice{way: c.way, why: "because"}
		err := is.override(c.want, c.is)
		switch {
		case c.fails != "":
			if err == nil || !strings.Contains(err.Error(), c.fails) || is.way != c.way {
				t.Errorf("%+v: got %s, %v", c, is.way, err)
			}
		case c.want == "" || c.want == Auto || c.want == c.way:
			if err != nil || is.way != c.way || is.why != "because" {
				t.Errorf("%+v: got %+v, %v", c, is, err)
			}
		case err != nil || is.way != c.want || is.why != "asked for; because":
			t.Errorf("%+v: got %+v, %v", c, is, err)
		}
	}
}

// The privileges that a program gains: not those of the user who starts it.
func TestPrivileges(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: programs of others")
	}
	for name, c := range map[string]struct {
		uid, gid int
		mode     os.FileMode
		want     string
	}{
		"none": {1234, 1234, 0o755, ""}, "setuid": {1234, 0, 0o755 | os.ModeSetuid, "is setuid to user 1234"}, "setuid, own": {0, 1234, 0o755 | os.ModeSetuid, ""},
		"setgid": {0, 1234, 0o755 | os.ModeSetgid, "is setgid to group 1234"}, "setgid, own": {1234, 0, 0o755 | os.ModeSetgid, ""},
		"both": {1234, 1235, 0o755 | os.ModeSetuid | os.ModeSetgid, "is setuid to user 1234"},
	} {
		path := writeFile(t, filepath.Join(t.TempDir(), "x"), "x", 0o755)
		if err := os.Chown(path, c.uid, c.gid); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, c.mode); err != nil {
			t.Fatal(err)
		}
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		fi, err := f.Stat()
		if err != nil {
			t.Fatal(err)
		}
		if got := privileges(f, fi); got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}

// A directory, and those above it, in which others can replace something, are not trusted.
func TestTrusted(t *testing.T) {
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	at := filepath.Join(base, "above", "dir")
	if err := os.MkdirAll(at, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(at, filepath.Join(base, "link")); err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(at, "file"), "x", 0o644)
	for path, want := range map[string]string{at: at, filepath.Join(base, "link"): at, filepath.Join(at, "file"): "", filepath.Join(base, "none"): ""} {
		if got, err := trusted(path); got != want || (err == nil) != (want != "") {
			t.Errorf("%s: got %s, %v", path, got, err)
		}
	}
	above := filepath.Dir(at)
	for name, c := range map[string]struct {
		mode os.FileMode
		uid  int
		good bool
	}{
		"its group's": {0o775, 0, false}, "everybody's": {0o757, 0, false}, "everybody's, and sticky": {0o777 | os.ModeSticky, 0, true}, "another user's": {0o755, 1234, false}, "root's": {0o700, 0, true},
	} {
		if c.uid != 0 && os.Geteuid() != 0 {
			continue
		}
		if err := os.Chmod(above, c.mode); err != nil {
			t.Fatal(err)
		}
		if os.Geteuid() == 0 {
			if err := os.Chown(above, c.uid, -1); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := trusted(at); (err == nil) != c.good || err != nil && !strings.Contains(err.Error(), above) {
			t.Errorf("%s: got %s, %v", name, got, err)
		}
	}
}

// The hash of the directory is of both libraries; files have their modes whatever the umask is.
func TestDirectoryOfLibraries(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0o077))
	t.Setenv("TMPDIR", t.TempDir())
	s := testStarter()
	dir, err := s.materialise()
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]os.FileMode{"": 0o755, "i686": 0o755, "i686/libvfix.so": 0o555} {
		if fi, err := os.Stat(filepath.Join(dir, name)); err != nil || fi.Mode().Perm() != want {
			t.Errorf("%s: got %v, %v, want %v", name, fi.Mode(), err, want)
		}
	}
	s.Library32 = []byte("another twin")
	if other, err := s.materialise(); err != nil || other == dir {
		t.Errorf("another library for 32 bits: got %s, %v", other, err)
	}
}
