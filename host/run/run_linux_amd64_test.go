package run

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"vfix.dev/vfix/shim"
)

func writeFile(t testing.TB, path, text string, mode os.FileMode) string {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), mode)); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestLookup: as execvp(3) and load_script find a file.
func TestLookup(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	for name, text := range map[string]string{
		"a/prog": "\x7fELF", "b/prog": "\x7fELF", "b/plain": "\x7fELF", "here": "\x7fELF",
		"one": "#!" + dir + "/a/prog\nmore", "arg": "#! \t" + dir + "/a/prog \t-x  -y \t\nmore", "two": "#!" + dir + "/arg -z\n",
		"lost": "#!/nowhere/sh\n", "empty": "#! \n", "loop": "#!" + dir + "/loop\n",
	} {
		writeFile(t, name, text, 0o755)
	}
	writeFile(t, "a/plain", "text", 0o644)
	writeFile(t, "a/denied", "text", 0o644)
	for _, c := range []struct {
		name, path    string
		file, program string
		err           error
	}{
		{"prog", "a:b", "a/prog", "a/prog", nil},
		{"prog", "b:a", "b/prog", "b/prog", nil},
		{"plain", "a:b", "b/plain", "b/plain", nil},
		{"denied", "a:b", "", "", ErrNoCommand},
		{"a/denied", "", "", "", ErrNotExecutable},
		{"here", "a::b", "here", "here", nil},
		{"here", "a", "", "", ErrNoCommand},
		{"./here", "a", "./here", "./here", nil},
		{"a/nothing", "", "", "", ErrNoCommand},
		{"here/prog", "", "", "", ErrNoCommand},
		{"./a", "", "", "", ErrNotExecutable},
		{"./one", "", "./one", dir + "/a/prog", nil},
		{"./arg", "", "./arg", dir + "/a/prog", nil},
		{"two", ":", "two", dir + "/a/prog", nil},
		{"./empty", "", "", "", ErrNotExecutable},
		{"./lost", "", "", "", ErrNoCommand},
		{"./loop", "", "", "", ErrNotExecutable},
		{"", "a", "", "", ErrNoCommand},
	} {
		t.Setenv("PATH", c.path)
		file, err := search(c.name)
		got := &choice{}
		if err == nil {
			got, err = choose(file, 0)
		}
		if c.err != nil {
			if !errors.Is(err, c.err) {
				t.Errorf("%s in %q: got %v, want %v", c.name, c.path, err, c.err)
			}
			continue
		}
		if err != nil || file != c.file || got.program != c.program {
			t.Errorf("%s in %q: got %s, %+v, %v, want %s, %s", c.name, c.path, file, got, err, c.file, c.program)
		}
	}
}

// TestChoose: the kinds of files, and what the user can override.
func TestChoose(t *testing.T) {
	self, err := os.ReadFile("/proc/self/exe") // static: it has no loader
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	static := writeFile(t, dir+"/static", string(self), 0o755)
	i386 := []byte(string(self))
	i386[4], i386[18] = 1, 3 // ELFCLASS32, EM_386
	for _, c := range []struct {
		path string
		want Way
		err  error
	}{
		{static, Trace, nil},
		{writeFile(t, dir+"/i386", string(i386), 0o755), AsIs, nil},
		{writeFile(t, dir+"/text", "text", 0o755), "", ErrNotExecutable},
		{writeFile(t, dir+"/empty", "#! \n", 0o755), "", ErrNotExecutable},
	} {
		got, err := choose(c.path, 0)
		if !errors.Is(err, c.err) || err == nil && got.way != c.want {
			t.Errorf("%s: got %+v, %v, want %s, %v", c.path, got, err, c.want, c.err)
		}
	}
	if os.Getuid() == 0 {
		setuid := writeFile(t, dir+"/setuid", string(self), 0o755)
		if err := errors.Join(os.Chown(setuid, 1, 1), os.Chmod(setuid, 0o755|fs.ModeSetuid)); err != nil {
			t.Fatal(err)
		}
		if got, err := choose(setuid, 0); err != nil || got.way != AsIs || !strings.HasSuffix(got.warning, "patch the file") {
			t.Errorf("setuid: got %+v, %v; a preload does not help a static program", got, err)
		}
	}
	got, err := choose(static, 0)
	if err != nil || got.override(Preload) == nil || got.override(Trace) != nil || got.override("") != nil || got.way != Trace {
		t.Errorf("%+v, %v: want an error for preload alone", got, err)
	}
	preload := &choice{way: Preload}
	if err := preload.override(Trace); err != nil || preload.way != Trace || !strings.HasPrefix(preload.why, "requested") {
		t.Errorf("got %+v, %v, want trace, requested", preload, err)
	}
}

// TestMaterialise: the same directory each time, readable by all, writable by its owner; one that somebody else may
// have made, or changed, is not used.
func TestMaterialise(t *testing.T) {
	base := t.TempDir()
	t.Setenv("TMPDIR", base)
	first, err := materialise()
	if err != nil || filepath.Dir(first) != base {
		t.Fatalf("got %s, %v", first, err)
	}
	if second, err := materialise(); second != first || err != nil {
		t.Errorf("again: got %s, %v, want %s", second, err, first)
	}
	for name, want := range map[string][]byte{"x86_64/libvfix.so": shim.Library(), "haswell/libvfix.so": shim.Library(), "i386/libvfix.so": shim.Library32(), "vfix-trace": shim.Trace()} {
		b, err := os.ReadFile(filepath.Join(first, name))
		fi, statErr := os.Stat(filepath.Join(first, name))
		if err != nil || statErr != nil || !bytes.Equal(b, want) || fi.Mode().Perm() != 0o555 {
			t.Errorf("%s: got %d bytes, %v, %v", name, len(b), err, statErr)
		}
	}
	if left, _ := filepath.Glob(base + "/.vfix-*"); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
	for name, spoil := range map[string]func() error{
		"writable": func() error { return os.Chmod(first, 0o777) },
		"content": func() error {
			path := first + "/vfix-trace"
			return errors.Join(os.Remove(path), os.WriteFile(path, []byte("evil"), 0o555))
		},
		"link": func() error { return errors.Join(os.Rename(first, first+"2"), os.Symlink(first+"2", first)) },
		"base": func() error { return os.Chmod(base, 0o777) },
	} {
		base = t.TempDir()
		t.Setenv("TMPDIR", base)
		if first, err = materialise(); err != nil {
			t.Fatal(err)
		}
		if err := spoil(); err != nil {
			t.Fatal(err)
		}
		again, _ := materialise()
		if fi, err := os.Lstat(first); again == first && (name != "link" || err != nil || !fi.IsDir()) { // it replaces the link
			t.Errorf("%s: %s is used", name, again)
		}
	}
}
