package policy

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"vfix.dev/vfix/host/starts"
)

// in is a directory with a configuration file, and a directory for the cache.
type in struct {
	t           *testing.T
	path, state string
}

func newIn(t *testing.T) in {
	t.Helper()
	dir := t.TempDir()
	return in{t, filepath.Join(dir, "runtime.json"), filepath.Join(dir, "cache")}
}

func (i in) write(text string) {
	i.t.Helper()
	os.RemoveAll(i.path)
	if err := os.WriteFile(i.path, []byte(text), 0o644); err != nil {
		i.t.Fatal(err)
	}
}

// start is what a start does with the policy.
func (i in) start(named bool) InForce {
	i.t.Helper()
	p := Load(i.path, named, i.state)
	if err := p.Keep(); err != nil {
		i.t.Fatal(err)
	}
	return p
}

// Whatever is wrong with the file: the last good configuration holds, without one fail_closed.
func TestInForce(t *testing.T) {
	broken := maps.Clone(badFiles)
	for text := range bad {
		broken[fmt.Sprintf("%q", text[:min(len(text), 40)])] = func(path string) error { return os.WriteFile(path, []byte(text), 0o644) }
	}
	for name, put := range broken {
		i := newIn(t)
		os.RemoveAll(i.path)
		if err := put(i.path); err != nil {
			t.Fatal(err)
		}
		if p := i.start(false); p.Source != starts.ClosedDefault || p.Config != closed || p.Err == nil || !strings.Contains(p.Why(), "fail_closed is in force") {
			t.Errorf("%s, none before: got %s %+v, %v", name, p.Source, p.Config, p.Err)
		}
		for _, good := range []string{`{"fail_closed": true, "runtime": "crun"}`, `{"runtime": "crun"}`} {
			i.write(good)
			want := i.start(false).Config
			os.RemoveAll(i.path)
			if err := put(i.path); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				if p := i.start(false); p.Source != starts.LastGood || p.Config != want || p.Err == nil || !strings.Contains(p.Why(), i.path) {
					t.Errorf("%s, %s before: got %s %+v, %v", name, good, p.Source, p.Config, p.Err)
				}
			}
		}
		i.write(`{}`)
		if p := i.start(false); p.Source != starts.FromFile || p.Config != (Config{}) || p.Why() != "" {
			t.Errorf("%s, then {}: got %s %+v", name, p.Source, p.Config)
		}
	}
}

// A file that is not there, and was never: the defaults, unless somebody typed its name. One that was there: what it
// said.
func TestRemovedFile(t *testing.T) {
	i := newIn(t)
	if p := i.start(false); p.Source != starts.Defaults || p.Config != (Config{}) || p.Err != nil {
		t.Errorf("never there: got %+v", p)
	}
	if p := i.start(true); p.Source != starts.ClosedDefault || p.Config != closed {
		t.Errorf("never there, named: got %+v", p)
	}
	i.write(`{"fail_closed": true, "opt_in": true}`)
	want := i.start(false).Config
	for _, gone := range []string{i.path, filepath.Dir(i.path) + "/moved"} {
		if err := os.Rename(i.path, gone+".old"); err != nil {
			t.Fatal(err)
		}
		if p := i.start(false); p.Source != starts.LastGood || p.Config != want {
			t.Errorf("removed: got %+v", p)
		}
		i.write(`{"fail_closed": true, "opt_in": true}`)
	}
	i.write(`{}`)
	i.start(false)
	os.Remove(i.path)
	if p := i.start(false); p.Source != starts.Defaults || p.Config != (Config{}) || p.Why() != "" {
		t.Errorf("removed, {} before: got %+v", p)
	}
	if err := os.RemoveAll(i.state); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(i.path, "dir"), 0o755); err != nil {
		t.Fatal(err)
	}
	if p := Load(filepath.Join(i.path, "dir", "file", "x"), false, i.state); p.Source != starts.Defaults {
		t.Errorf("no directory: got %+v", p)
	}
}

// Who can write the file decides: as root, that is root.
func TestOthersCannotWriteTheFile(t *testing.T) {
	if Rootless() {
		t.Skip("needs root: files of others")
	}
	for name, c := range map[string]struct {
		mode     os.FileMode
		uid, gid int
		good     bool
	}{
		"root's":               {0o644, 0, 0, true},
		"secret":               {0o600, 0, 0, true},
		"its group's, root":    {0o664, 0, 0, true},
		"its group's":          {0o664, 0, 1234, false},
		"read by a group":      {0o640, 0, 1234, true},
		"everybody's":          {0o666, 0, 0, false},
		"another user's":       {0o644, 1234, 0, false},
		"another user's, 0400": {0o400, 1234, 1234, false},
	} {
		i := newIn(t)
		i.write(`{"fail_closed": true, "runtime": "crun"}`)
		i.start(false)
		i.write(`{}`)
		if err := errors.Join(os.Chown(i.path, c.uid, c.gid), os.Chmod(i.path, c.mode)); err != nil {
			t.Fatal(err)
		}
		if p := i.start(false); (p.Source == starts.FromFile) != c.good || p.FailClosed == c.good {
			t.Errorf("%s: got %s, %v", name, p.Source, p.Err)
		}
	}
}

// A kept configuration counts only if root alone can have written it, in full.
func TestKeptIsSound(t *testing.T) {
	strict := `{"fail_closed": true}`
	edit := func(from, to string) func(string) error {
		return func(at string) error {
			b, err := os.ReadFile(at)
			if err == nil {
				err = os.WriteFile(at, []byte(strings.Replace(string(b), from, to, 1)), 0o600)
			}
			return err
		}
	}
	for name, harm := range map[string]func(at string) error{
		"readable by others":       func(at string) error { return os.Chmod(at, 0o604) },
		"writable by others":       func(at string) error { return os.Chmod(at, 0o620) },
		"in a directory of others": func(at string) error { return os.Chmod(filepath.Dir(at), 0o777) },
		"cut off":                  func(at string) error { return os.Truncate(at, 30) },
		"empty":                    func(at string) error { return os.Truncate(at, 0) },
		"another format":           edit(`"format":1`, `"format":2`),
		"another path":             edit(`runtime.json`, `runtime.jsox`),
		"not a configuration":      edit(`fail_closed`, `fail_clothed`),
		"of a later version":       edit(`"format":1`, `"format":1,"x":1`),
		"a symlink": func(at string) error {
			if err := os.Rename(at, at+".x"); err != nil {
				return err
			}
			return os.Symlink(at+".x", at)
		},
		"another user's":                 func(at string) error { return os.Chown(at, 1234, 1234) },
		"in a directory of another user": func(at string) error { return os.Chown(filepath.Dir(at), 1234, 1234) },
	} {
		if strings.Contains(name, "another user") && os.Geteuid() != 0 {
			continue
		}
		i := newIn(t)
		i.write(strict)
		i.start(false)
		at := keptPath(i.state, i.path)
		if fi, err := os.Stat(at); err != nil || fi.Mode() != 0o600 {
			t.Fatalf("kept: got %v, %v", fi, err)
		}
		if err := harm(at); err != nil {
			t.Fatal(err)
		}
		for _, put := range []func(string) error{os.Remove, func(path string) error { return os.WriteFile(path, []byte(`{`), 0o600) }} {
			if err := put(i.path); err != nil {
				t.Fatal(err)
			}
			if p := i.start(false); p.Source != starts.ClosedDefault || !p.FailClosed || !strings.Contains(p.Why(), "last good configuration") {
				t.Errorf("%s: got %s, %v", name, p.Source, p.Err)
			}
		}
		if strings.Contains(name, "directory") {
			continue
		}
		i.write(`{"runtime": "crun"}`) // it is replaced
		i.start(false)
		i.write(`{`)
		if p := i.start(false); p.Source != starts.LastGood || p.Runtime != "crun" {
			t.Errorf("%s, kept again: got %s, %v", name, p.Source, p.Err)
		}
	}
}

// One file's configuration is not another's.
func TestKeptByPath(t *testing.T) {
	i := newIn(t)
	i.write(`{"fail_closed": true}`)
	i.start(true)
	other := in{t, i.path + "2", i.state}
	other.write(`{`)
	if p := other.start(true); p.Source != starts.ClosedDefault {
		t.Errorf("got %s", p.Source)
	}
	other.write(`{}`)
	other.start(true)
	i.write(`{`)
	if p := i.start(true); p.Source != starts.LastGood || !p.FailClosed {
		t.Errorf("got %+v", p)
	}
}

func TestForget(t *testing.T) {
	root := t.TempDir()
	i := in{t, ConfigFile, filepath.Join(root, DefaultCacheDir)}
	if err := Forget(root, i.path); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Dir(keptPath(i.state, i.path)), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(keptPath(i.state, i.path), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Forget(root, i.path); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(keptPath(i.state, i.path)); !os.IsNotExist(err) {
		t.Errorf("got %v", err)
	}
}
