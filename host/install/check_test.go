package install

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Changes since the installation are seen; in another machine's root nothing is started.
func TestCheck(t *testing.T) {
	o := options(t, Podman, machine(t, map[string]string{"usr/bin/podman": "", "usr/bin/runc": ""}))
	check := func() *Checked {
		t.Helper()
		c, err := Check(context.Background(), Options{Root: o.Root})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	if c := check(); c.Installed || len(c.Problems) != 1 || !strings.Contains(c.Problems[0], "not installed") {
		t.Errorf("before: got %+v", c)
	}
	if _, err := Install(o); err != nil {
		t.Fatal(err)
	}
	c := check()
	if !c.Installed || c.Program != "/usr/local/bin/vfix-runtime" || len(c.Problems) != 0 || c.Start != nil || len(c.Files) < 3 {
		t.Errorf("got %+v", c)
	}
	if len(c.Engines) != 1 || c.Engines[0].Engine != Podman || !c.Engines[0].Names {
		t.Errorf("engines: got %+v", c.Engines)
	}
	conf := filepath.Join(o.Root, c.Engines[0].Config)
	if err := os.WriteFile(conf, []byte("# by hand\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if c := check(); len(c.Problems) != 1 || !strings.Contains(c.Problems[0], "does not name") || c.Engines[0].Names {
		t.Errorf("an engine without it: got %+v", c)
	}
	if err := os.Remove(filepath.Join(o.Root, "usr/local/bin/vfix")); err != nil {
		t.Fatal(err)
	}
	if c := check(); len(c.Problems) != 2 || !strings.Contains(c.Problems[0], "missing") {
		t.Errorf("without the program: got %+v", c)
	}
	if c, err := Check(context.Background(), Options{Root: o.Root, Engine: Docker}); err != nil || !strings.Contains(strings.Join(c.Problems, " "), "docker: vfix is not installed for it") {
		t.Errorf("another engine: got %+v, %v", c, err)
	}
}
