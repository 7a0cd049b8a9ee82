package install

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"vfix.dev/vfix/internal/hinterr"
)

// Impossible requests are refused with the file's name and a hint, and nothing has changed.
func TestRefused(t *testing.T) {
	unit := "usr/lib/systemd/system/docker.service"
	for name, c := range map[string]struct {
		engine Engine
		change func(*Options)
		files  map[string]string
		kind   error
		want   string
	}{
		"no engine":                {Podman, nil, map[string]string{"usr/bin/crio": ""}, ErrNoEngine, "podman: not found"},
		"unknown engine":           {"lxc", nil, nil, ErrNoEngine, `"lxc"`},
		"damaged JSON":             {Docker, nil, map[string]string{"etc/docker/daemon.json": "{", "usr/bin/dockerd": ""}, hinterr.ErrDamaged, "/etc/docker/daemon.json"},
		"damaged TOML":             {Containerd, nil, map[string]string{containerdConfig: "a = [\n"}, hinterr.ErrDamaged, "/etc/containerd/config.toml"},
		"future containerd":        {Containerd, nil, map[string]string{containerdConfig: "version = 9\n"}, hinterr.ErrUnsupported, "version 9"},
		"another runtime":          {Docker, nil, map[string]string{"etc/docker/daemon.json": `{"runtimes":{"vfix":{"path":"/x"}}}`, "usr/bin/dockerd": ""}, ErrConflict, "another runtime vfix"},
		"another handler":          {Containerd, nil, map[string]string{containerdConfig: "version = 2\n[plugins.\"io.containerd.grpc.v1.cri\".containerd.runtimes.vfix.options]\nBinaryName = \"x\"\n"}, ErrConflict, "another runtime vfix"},
		"tables in braces":         {Containerd, nil, map[string]string{containerdConfig: "version = 2\nplugins = {\"io.containerd.grpc.v1.cri\" = {}}\n"}, ErrConflict, "cannot be added"},
		"not runc's":               {Containerd, nil, map[string]string{containerdConfig: "version = 2\n[plugins.\"io.containerd.grpc.v1.cri\".containerd.runtimes.runc]\nruntime_type = \"io.containerd.kata.v2\"\n"}, hinterr.ErrUnsupported, "io.containerd.kata.v2"},
		"dockerd's own flags":      {Docker, nil, map[string]string{"usr/bin/dockerd": "", unit: "[Service]\nExecStart=/usr/bin/dockerd --add-runtime=a=/b\n"}, ErrConflict, unit},
		"no such runtime":          {Docker, func(o *Options) { o.Runtime = "youki" }, map[string]string{"usr/bin/dockerd": ""}, ErrConflict, "youki"},
		"name of another":          {Docker, func(o *Options) { o.Name = "runc" }, map[string]string{"usr/bin/dockerd": ""}, hinterr.ErrUnsupported, "runc"},
		"name that is not a label": {Docker, func(o *Options) { o.Name = "V_fix" }, map[string]string{"usr/bin/dockerd": ""}, hinterr.ErrUnsupported, "V_fix"},
		"k3s not started":          {K3s, nil, map[string]string{"usr/local/bin/k3s": ""}, ErrNoEngine, "not been started"},
		"k0s not managed":          {K0s, nil, map[string]string{"etc/k0s/containerd.toml": "version = 2\n"}, hinterr.ErrUnsupported, "not managed"},
		"several engines":          {Auto, nil, map[string]string{"usr/bin/crio": "", "usr/bin/containerd": ""}, ErrConflict, "crio"},
		"auto, none":               {Auto, nil, map[string]string{"usr/bin/dockerd": ""}, ErrNoEngine, "Kubernetes"},
		"damaged state":            {Docker, nil, map[string]string{"usr/bin/dockerd": "", stateFile: "{"}, hinterr.ErrDamaged, stateFile},
		"hostile state":            {Docker, nil, map[string]string{"usr/bin/dockerd": "", stateFile: `{"schema":1,"files":[{"path":"../x"}]}`}, hinterr.ErrDamaged, "../x"},
		"state of the future":      {Docker, nil, map[string]string{"usr/bin/dockerd": "", stateFile: `{"schema":2}`}, hinterr.ErrUnsupported, "schema 2"},
		"file in the way":          {Docker, nil, map[string]string{"usr/bin/dockerd": "", "usr/local/bin/vfix-runtime": "x"}, ErrConflict, "not vfix's"},
	} {
		root := machine(t, c.files)
		before := snapshot(t, root)
		o := options(t, c.engine, root)
		if c.change != nil {
			c.change(&o)
		}
		_, err := Install(o)
		if !errors.Is(err, c.kind) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %v and %q", name, err, c.kind, c.want)
		}
		if got := snapshot(t, root); got != before {
			t.Errorf("%s: got\n%s\nwant\n%s", name, got, before)
		}
	}
}

// An error in the middle is taken back: here the engine's directory is a file.
func TestRolledBack(t *testing.T) {
	for _, file := range []string{"etc/docker", "etc", "usr/local", "var/lib"} {
		root := machine(t, map[string]string{"usr/bin/dockerd": "", file: "a file"})
		before := snapshot(t, root)
		_, err := Install(options(t, Docker, root))
		if err == nil {
			t.Errorf("/%s is a file: no error", file)
		} else if words := strings.Fields(err.Error()); !slices.ContainsFunc(words, func(w string) bool { return strings.HasPrefix(w, "/"+file) }) {
			t.Errorf("/%s is a file: got %q, which does not name it from the root", file, err)
		}
		if got := snapshot(t, root); got != before {
			t.Errorf("/%s is a file: got\n%s\nwant\n%s", file, got, before)
		}
	}
}

// Symlinks mean what they mean inside the root, and do not lead out of it.
func TestLinks(t *testing.T) {
	outside := t.TempDir()
	root := machine(t, map[string]string{"usr/bin/dockerd": "", "srv/etc/daemon.json": daemonJSON, "data/local/keep": ""})
	for name, target := range map[string]string{
		"etc":       "/srv/etc",
		"usr/local": "/../../../../data/local",
	} {
		if err := os.Symlink(target, filepath.Join(root, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(".", filepath.Join(root, "srv/etc/docker")); err != nil {
		t.Fatal(err)
	}
	before := snapshot(t, root)
	r, err := Install(options(t, Docker, root))
	must(t, r, err)
	if !strings.Contains(get(t, root, "srv/etc/daemon.json"), "vfix-runtime") || !exists(root, "data/local/bin/vfix-runtime") {
		t.Errorf("not in the root: %s", snapshot(t, root))
	}
	if fi, err := os.Lstat(filepath.Join(root, "etc")); err != nil || fi.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link is gone: %v, %v", fi, err)
	}
	r, err = Uninstall(Options{Root: root})
	if must(t, r, err); snapshot(t, root) != before {
		t.Errorf("got\n%s\nwant\n%s", snapshot(t, root), before)
	}
	if err := os.Remove(filepath.Join(root, "etc")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(root, "etc")); err != nil {
		t.Fatal(err)
	}
	r, err = Install(options(t, Docker, root))
	must(t, r, err)
	if entries, _ := os.ReadDir(outside); len(entries) != 0 {
		t.Errorf("written outside of the root: %v", entries)
	}
}

// A runtime that fail_closed lets start nothing is warned of.
func TestUnknownRuntime(t *testing.T) {
	for failClosed, want := range map[bool]int{false: 0, true: 1} {
		o := options(t, Docker, machine(t, map[string]string{"usr/bin/dockerd": "", "opt/runsc": ""}))
		o.Runtime, o.FailClosed = "/opt/runsc", failClosed
		if r, err := Install(o); err != nil || len(r.Warnings) != want || want > 0 && !strings.Contains(r.Warnings[0], "fail_closed refuses every container") {
			t.Errorf("fail_closed %t: got %+v, %v", failClosed, r, err)
		}
	}
}

// Files that two engines share stay until both are uninstalled, and a fifo or directory in the place
// of a file is not opened.
func TestShared(t *testing.T) {
	root := machine(t, map[string]string{"usr/bin/dockerd": "", "usr/bin/podman": "", "usr/bin/crun": ""})
	before := snapshot(t, root)
	for _, e := range []Engine{Docker, Podman} {
		o := options(t, e, root)
		o.FailClosed = true
		r, err := Install(o)
		must(t, r, err)
	}
	o := options(t, Podman, root)
	o.Runtime = "crun"
	r, err := Install(o)
	must(t, r, err)
	if got := get(t, root, runtimeConfig); !strings.Contains(got, "crun") || len(r.Warnings) > 0 {
		t.Errorf("%s: got %s, %q", runtimeConfig, got, r.Warnings)
	}
	r, err = Uninstall(Options{Root: root, Engine: Docker})
	must(t, r, err)
	if exists(root, "etc/docker/daemon.json") || !exists(root, "usr/local/bin/vfix-runtime") || !exists(root, "etc/containers/containers.conf.d/99-vfix.conf") {
		t.Errorf("after docker's uninstall: %s", snapshot(t, root))
	}
	r, err = Install(options(t, Podman, root)) // without --runtime: it gets nothing
	if must(t, r, err); exists(root, runtimeConfig) {
		t.Errorf("%s stays: %s", runtimeConfig, get(t, root, runtimeConfig))
	}
	r, err = Uninstall(Options{Root: root})
	if must(t, r, err); snapshot(t, root) != before {
		t.Errorf("got\n%s\nwant\n%s", snapshot(t, root), before)
	}
}

// With containerd 1 the file whose section counts gets the runtime, and the built-in runc is
// not lost; with containerd 2 an imported directory gets a file.
func TestContainerd(t *testing.T) {
	cri := "[plugins.\"io.containerd.grpc.v1.cri\"]\nsandbox_image = \"x\"\n"
	main := "version = 2\nimports = [\"conf.d/*.toml\"]\n"
	for name, c := range map[string]struct {
		files      map[string]string
		file, want string
	}{
		"none":          {map[string]string{"usr/bin/containerd": ""}, containerdConfig, "containerd.runtimes.runc]"},
		"1, plain":      {map[string]string{containerdConfig: "version = 2\n"}, containerdConfig, "containerd.runtimes.runc]"},
		"1, no version": {map[string]string{containerdConfig: "disabled_plugins = []\n"}, containerdConfig, `[plugins."cri".containerd.runtimes.vfix]`},
		"1, imported": {map[string]string{containerdConfig: main + cri, "etc/containerd/conf.d/a.toml": "version = 2\n" + cri, "etc/containerd/conf.d/b.toml": "version = 2\n"},
			"etc/containerd/conf.d/a.toml", "BinaryName"},
		"2, imported": {map[string]string{containerdConfig: strings.Replace(main, "2", "3", 1)}, "etc/containerd/conf.d/99-vfix.toml", "version = 3\n"},
		"2, plain":    {map[string]string{containerdConfig: "version = 3\n"}, containerdConfig, `[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.vfix]`},
		"default runtime": {map[string]string{"usr/bin/crun": "", containerdConfig: "version = 2\n[plugins.\"io.containerd.grpc.v1.cri\".containerd]\ndefault_runtime_name = \"crun\"\n[plugins.\"io.containerd.grpc.v1.cri\".containerd.runtimes.crun]\nruntime_type = \"io.containerd.runc.v2\"\nsnapshotter = \"s\"\n[plugins.\"io.containerd.grpc.v1.cri\".containerd.runtimes.crun.options]\nBinaryName = \"/usr/bin/crun\"\n"},
			runtimeConfig, "/usr/bin/crun"},
	} {
		root := machine(t, c.files)
		before := snapshot(t, root)
		r, err := Install(options(t, Containerd, root))
		must(t, r, err)
		if got := get(t, root, c.file); !strings.Contains(got, c.want) {
			t.Errorf("%s: %s holds %q, want %q", name, c.file, got, c.want)
		}
		r, err = Uninstall(Options{Root: root})
		if must(t, r, err); snapshot(t, root) != before {
			t.Errorf("%s: got\n%s\nwant\n%s", name, snapshot(t, root), before)
		}
	}
}
