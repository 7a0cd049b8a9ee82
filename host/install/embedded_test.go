package install

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"vfix.dev/vfix/internal/hinterr"
)

// Before vfix-runtime was a program of its own it was a link to vfix: an upgrade replaces the link, a
// downgrade the program, and uninstall leaves nothing either way.
func TestRuntimeUpgrade(t *testing.T) {
	root := machine(t, map[string]string{"usr/sbin/dockerd": ""})
	before := snapshot(t, root)
	path := filepath.Join(root, "usr/local/bin/vfix-runtime")
	old, now := options(t, Docker, root), options(t, Docker, root)
	old.Program = programWith(t, "of a version without it")
	for _, o := range []Options{old, now, old, now} {
		r, err := Install(o)
		must(t, r, err)
		link, _ := os.Readlink(path)
		if want := map[bool]string{true: "vfix"}[o.Program == old.Program]; link != want {
			t.Errorf("link: got %q, want %q", link, want)
		}
		if link == "" && get(t, root, "usr/local/bin/vfix-runtime") != testRuntime {
			t.Error("the program is not vfix-runtime")
		}
		if fi, err := os.Stat(path); err != nil || fi.Mode() != 0o755 {
			t.Errorf("got %v, %v", fi, err)
		}
	}
	r, err := Uninstall(Options{Root: root})
	must(t, r, err)
	if got := snapshot(t, root); got != before {
		t.Errorf("after uninstall: got\n%s\nwant\n%s", got, before)
	}
}

// A vfix whose vfix-runtime is damaged is not installed.
func TestRuntimeDamaged(t *testing.T) {
	root := machine(t, map[string]string{"usr/sbin/dockerd": ""})
	before := snapshot(t, root)
	whole := zipped(t, testRuntime)
	for name, text := range map[string]string{"cut off": whole[:len(whole)-9], "not compressed": testRuntime, "another sum": whole[:len(whole)-8] + "12345678", "no program": zipped(t, "#!/bin/sh\n")} {
		o := options(t, Docker, root)
		o.Program = programWith(t, "Vfix-runtime, compressed\n"+text)
		if _, err := Install(o); !errors.Is(err, hinterr.ErrDamaged) || !strings.Contains(err.Error(), "vfix-runtime") {
			t.Errorf("%s: got %v, want %v", name, err, hinterr.ErrDamaged)
		}
	}
	if snapshot(t, root) != before {
		t.Error("something was written")
	}
}
