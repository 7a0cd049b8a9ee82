package run

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func testStarter() *starter {
	return &starter{Options: Options{Library: []byte("library"), Library32: []byte("twin")}, choice: &choice{}}
}

// TestMaterialise: the same directory each time, readable by all, writable by its owner.
func TestMaterialise(t *testing.T) {
	base := t.TempDir()
	t.Setenv("TMPDIR", base)
	s := testStarter()
	first, err := s.materialise()
	if err != nil || filepath.Dir(first) != base {
		t.Fatalf("got %s, %v", first, err)
	}
	if second, err := s.materialise(); second != first || err != nil {
		t.Errorf("again: got %s, %v, want %s", second, err, first)
	}
	for name, want := range map[string]os.FileMode{"": 0o755, "x86_64": 0o755, "x86_64/libvfix.so": 0o555, "i686/libvfix.so": 0o555} {
		if fi, err := os.Stat(filepath.Join(first, name)); err != nil || fi.Mode().Perm() != want {
			t.Errorf("%s: got %v, %v, want mode %v", name, fi, err, want)
		}
	}
	// systemd-tmpfiles removes no file that has it.
	if fi, err := os.Stat(filepath.Join(first, "x86_64/libvfix.so")); err != nil || fi.Mode()&os.ModeSticky == 0 {
		t.Errorf("libvfix.so: got %v, %v, want the sticky bit", fi.Mode(), err)
	}
	for name, want := range map[string]string{"x86_64": "library", "haswell": "library", "i686": "twin", "i386": "twin"} {
		if b, err := os.ReadFile(filepath.Join(first, name, "libvfix.so")); err != nil || string(b) != want {
			t.Errorf("%s: got %q, %v", name, b, err)
		}
	}
	if left, _ := filepath.Glob(base + "/.vfix-*"); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
	other := testStarter()
	other.Library = []byte("another version")
	if dir, err := other.materialise(); err != nil || dir == first {
		t.Errorf("another version: got %s, %v", dir, err)
	}
}

// TestMaterialiseRefuses: a directory that somebody else may have made, or changed, is not used.
func TestMaterialiseRefuses(t *testing.T) {
	for name, spoil := range map[string]func(dir string) error{
		"content":  func(dir string) error { return replace(dir+"/x86_64/libvfix.so", "evil") },
		"writable": func(dir string) error { return os.Chmod(dir, 0o777) },
		"file":     func(dir string) error { return os.Chmod(dir+"/x86_64/libvfix.so", 0o777) },
		"link": func(dir string) error {
			return os.Rename(dir+"/x86_64", dir+"/elsewhere")
		},
		"symlink": func(dir string) error {
			if err := os.Rename(dir, dir+"-moved"); err != nil {
				return err
			}
			return os.Symlink(dir+"-moved", dir)
		},
		"platform": func(dir string) error {
			if err := os.Remove(dir + "/haswell"); err != nil {
				return err
			}
			return os.Symlink("/tmp", dir+"/haswell")
		},
	} {
		base := t.TempDir()
		t.Setenv("TMPDIR", base)
		s := testStarter()
		dir, err := s.materialise()
		if err != nil {
			t.Fatal(err)
		}
		if err := s.sound(dir); err != nil {
			t.Errorf("%s: before: %v", name, err)
		}
		if err := spoil(dir); err != nil {
			t.Fatal(err)
		}
		if err := s.sound(dir); err == nil {
			t.Errorf("%s: the directory is used", name)
		}
	}
}

func replace(path, text string) error {
	if err := os.Remove(path); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(text), 0o555)
}

// TestPreload: what LD_PRELOAD has stays, before ours.
func TestPreload(t *testing.T) {
	base := t.TempDir()
	t.Setenv("TMPDIR", base)
	t.Setenv("LD_PRELOAD", "/a.so /b.so")
	s := testStarter()
	s.env = []string{"A=1", "LD_PRELOAD=/a.so /b.so", "B=2"}
	how, err := s.preload()
	if err != nil {
		t.Fatal(err)
	}
	got := strings.Join(s.env, "|")
	if !strings.HasPrefix(got, "A=1|B=2|LD_PRELOAD=/a.so /b.so:"+base+"/vfix-") || !strings.HasSuffix(got, "/libvfix.so") || !strings.Contains(how, base) {
		t.Errorf("got %s; %s", got, how)
	}
	// A path that LD_PRELOAD cannot hold is passed over.
	t.Setenv("TMPDIR", base+"/with a:colon")
	if err := os.Mkdir(base+"/with a:colon", 0o755); err != nil {
		t.Fatal(err)
	}
	if dir, err := s.materialise(); err != nil || strings.Contains(dir, "colon") {
		t.Errorf("got %s, %v", dir, err)
	} else {
		os.RemoveAll(dir)
	}
}

// Where others can put a library of theirs in the place of ours, none is put.
func TestUntrustedDirs(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: directories of others")
	}
	for name, c := range map[string]struct {
		harm func(base string) error // of TMPDIR, which is top/x/y
		used bool
	}{
		"root's":              {func(string) error { return nil }, true},
		"sticky":              {func(base string) error { return os.Chmod(base, 0o777|os.ModeSticky) }, true},
		"writable by others":  {func(base string) error { return os.Chmod(base, 0o777) }, false},
		"writable by a group": {func(base string) error { return os.Chmod(base, 0o775) }, false},
		"another user's":      {func(base string) error { return os.Chown(base, 1234, 0) }, false},
		"another user's, sticky": {func(base string) error {
			return errors.Join(os.Chown(base, 1234, 0), os.Chmod(base, 0o777|os.ModeSticky))
		}, false},
		"nobody's":              {func(base string) error { return os.Chown(base, 65534, 65534) }, false},
		"below one of others":   {func(base string) error { return os.Chmod(filepath.Dir(base), 0o777) }, false},
		"below another user's":  {func(base string) error { return os.Chown(filepath.Dir(filepath.Dir(base)), 1234, 0) }, false},
		"a link to a sound one": {func(base string) error { return errors.Join(os.Rename(base, base+"2"), os.Symlink(base+"2", base)) }, true},
		"a link to another user's": {func(base string) error {
			return errors.Join(os.Rename(base, base+"2"), os.Symlink(base+"2", base), os.Chown(base+"2", 1234, 0))
		}, false},
		"a link among others'": {func(base string) error {
			return errors.Join(os.Rename(base, base+"2"), os.Symlink(base+"2", base), os.Chmod(filepath.Dir(base), 0o777))
		}, false},
	} {
		top := t.TempDir()
		base := filepath.Join(top, "x", "y")
		if err := errors.Join(os.MkdirAll(base, 0o755), c.harm(base)); err != nil {
			t.Fatal(err)
		}
		t.Setenv("TMPDIR", base)
		dir, err := testStarter().materialise()
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if used := strings.HasPrefix(dir, top); used != c.used {
			t.Errorf("%s: got %s", name, dir)
		}
		if !c.used {
			os.RemoveAll(dir)
		}
	}
}
