// Each engine's file: written, written again, and taken away, beside what else is in it.

package install

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"vfix.dev/vfix/internal/hinterr"
)

// machine is a root directory with files.
func machine(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		name = filepath.Join(root, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte(text), 0o640)); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// contents are the regular files of a root directory, with their modes.
func contents(t *testing.T, root string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			return nil
		}
		text, err := os.ReadFile(name)
		fi, ferr := d.Info()
		all[strings.TrimPrefix(name, root)] = fi.Mode().String() + " " + string(text)
		return errors.Join(err, ferr)
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func options(root, engine string) Options {
	return Options{Engine: engine, Root: root, Programs: map[string][]byte{"vfix": []byte("one"), RuntimeName: []byte("two")}}
}

const (
	k3sConfig = "/var/lib/rancher/k3s/agent/etc/containerd/config.toml"
	k3sDropIn = "/var/lib/rancher/k3s/agent/etc/containerd/config-v3.toml.d/99-vfix.toml"
	k0sConfig = "/etc/k0s/containerd.toml"
	k0sDropIn = "/etc/k0s/containerd.d/vfix.toml"
	k3sText   = "version = 3\nimports = [\"/var/lib/rancher/k3s/agent/etc/containerd/config-v3.toml.d/*.toml\"]\n" +
		"[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]\nSystemdCgroup = true\n"
)

// TestEngines: what each engine gets to read, and that uninstall leaves nothing of it.
func TestEngines(t *testing.T) {
	for _, c := range []struct {
		name, engine string
		before       map[string]string
		file         string
		want         []string // in the file
	}{
		{"docker", "docker", nil, "/etc/docker/daemon.json", []string{`{"runtimes":{"vfix":{"path": "/usr/local/lib/vfix/vfix-runtime"}}`}},
		{
			"docker with a configuration", "docker", map[string]string{"/etc/docker/daemon.json": "{\n\t\"labels\":   [\"a=b\"],\n\t\"debug\": true\n}\n"},
			"/etc/docker/daemon.json", []string{"{\n\t\"labels\":   [\"a=b\"],\n\t\"debug\": true,\"runtimes\":{\"vfix\":{"},
		},
		{
			"docker with another runtime", "docker", map[string]string{"/etc/docker/daemon.json": `{"runtimes":{"a":{"path":"b"}}}`},
			"/etc/docker/daemon.json", []string{`{"runtimes":{"a":{"path":"b"},"vfix":{"path": "/usr/local/lib/vfix/vfix-runtime"}}}`},
		},
		{"podman", "podman", nil, hookPath, []string{`"path": "/usr/local/lib/vfix/vfix-runtime"`, `"createRuntime"`, `"always": true`}},
		{"crio", "crio", nil, hookPath, []string{`["vfix-runtime", "hook"]`}},
		{
			"containerd 2", "containerd", map[string]string{"/etc/containerd/config.toml": "version = 3\nimports = ['conf.d/*.toml']\n"},
			"/etc/containerd/conf.d/99-vfix.toml", []string{"version = 3\n", `[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.vfix]`, "SystemdCgroup = false"},
		},
		{"k3s", "k3s", map[string]string{k3sConfig: k3sText}, k3sDropIn, []string{"SystemdCgroup = true", `BinaryName = "/usr/local/lib/vfix/vfix-runtime"`, `["dev.vfix.*"]`}},
		{
			"k0s before 1.36", "k0s", map[string]string{
				k0sConfig:                      "version = 2\nimports = ['/run/k0s/containerd-cri.toml']\n",
				"/run/k0s/containerd-cri.toml": "version = 2\n[plugins.'io.containerd.grpc.v1.cri'.containerd.runtimes.runc.options]\nSystemdCgroup = true\n",
			},
			k0sDropIn, []string{"version = 2\n", `plugins."io.containerd.grpc.v1.cri".containerd`, "SystemdCgroup = true"},
		},
		{
			"k0s", "k0s", map[string]string{
				k0sConfig:                        "imports = ['/etc/k0s/containerd.d/*.toml']\nversion = 3\n[plugins.'io.containerd.cri.v1.runtime']\n",
				"/etc/k0s/containerd.d/own.toml": "[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]\nSystemdCgroup = true\n",
			},
			k0sDropIn, []string{"version = 3\n", `plugins."io.containerd.cri.v1.runtime".containerd`, "SystemdCgroup = true"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			root := machine(t, c.before)
			before := contents(t, root)
			o := options(root, c.engine)
			o.DryRun = true
			planned, err := Install(o)
			if err != nil || len(planned.Changes) != 3 || len(contents(t, root)) != len(before) {
				t.Fatalf("dry run: got %+v, %v, and %d files", planned, err, len(contents(t, root)))
			}
			o.DryRun = false
			done, err := Install(o)
			if err != nil || done.Changes[2].ByHand || done.Changes[2].Path != c.file {
				t.Fatalf("got %+v, %v", done, err)
			}
			after := contents(t, root)
			for _, want := range c.want {
				if !strings.Contains(after[c.file], want) {
					t.Errorf("%s: got %s, want %s in it", c.file, after[c.file], want)
				}
			}
			if c.before[c.file] != "" && !strings.HasPrefix(after[c.file], "-rw-r-----") {
				t.Errorf("%s: mode %.10s", c.file, after[c.file])
			}
			if after[RuntimePath] != "-rwxr-xr-x two" || after[Dir+"/vfix"] != "-rwxr-xr-x one" {
				t.Errorf("programs: %q, %q", after[RuntimePath], after[Dir+"/vfix"])
			}
			if again, err := Install(o); err != nil || len(again.Changes) > 0 || len(again.Commands) > 0 {
				t.Errorf("again: got %+v, %v", again, err)
			}
			gone, err := Uninstall(Options{Root: root, Engine: c.engine}) // podman and CRI-O have one file in common
			if err != nil || gone.Stays || len(gone.Changes) != 3 {
				t.Errorf("uninstall: got %+v, %v", gone, err)
			}
			if left := contents(t, root); !maps.Equal(left, before) {
				t.Errorf("after uninstall: got %v, want %v", left, before)
			}
			if again, err := Uninstall(Options{Root: root}); err != nil || len(again.Changes) > 0 {
				t.Errorf("uninstall again: got %+v, %v", again, err)
			}
		})
	}
}

// TestBlocks: a configuration that imports no directory is not changed, and the block makes it right.
func TestBlocks(t *testing.T) {
	const config, runc = "/etc/containerd/config.toml", "\n[plugins.\"io.containerd.grpc.v1.cri\".containerd.runtimes.runc.options]\nSystemdCgroup = true\n"
	for _, c := range []struct {
		name, text string
		want       string
		runc       bool // containerd 1 needs it beside another one
	}{
		{"none", "", "version = 2\n", true},
		{"empty", "\n", "version = 2\n", true},
		{"version 1", "oom_score = 1\n", `[plugins."cri".containerd.runtimes.vfix]`, true},
		{"version 2, with imports", "version = 2\nimports = ['/etc/containerd/conf.d/*.toml']\n", `"io.containerd.grpc.v1.cri"`, true},
		{"version 2, with runc", "version = 2\n" + runc, "SystemdCgroup = true", false},
		{"version 3", "version = 3\n", `"io.containerd.cri.v1.runtime"`, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			root := machine(t, nil)
			if c.text != "" {
				root = machine(t, map[string]string{config: c.text})
			}
			got, err := Install(options(root, "containerd"))
			if err != nil || len(got.Changes) != 3 || !got.Changes[2].ByHand || got.Changes[2].Path != config {
				t.Fatalf("got %+v, %v", got, err)
			}
			block := got.Changes[2].Text
			if !strings.Contains(block, c.want) || strings.Contains(block, ".runtimes.runc]") != c.runc {
				t.Errorf("block: got %s, want %s in it", block, c.want)
			}
			name := filepath.Join(root, config)
			if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte(c.text+block), 0o644)); err != nil {
				t.Fatal(err)
			}
			if again, err := Install(options(root, "containerd")); err != nil || len(again.Changes) > 0 {
				t.Errorf("with the block: got %+v, %v", again, err)
			}
			gone, err := Uninstall(options(root, "containerd"))
			if err != nil || len(gone.Changes) != 1 || !gone.Changes[0].ByHand || !gone.Changes[0].Removed || !gone.Stays {
				t.Errorf("uninstall: got %+v, %v", gone, err)
			}
		})
	}
}

// TestRefused: nothing is changed, programs included.
func TestRefused(t *testing.T) {
	for _, c := range []struct {
		engine, file, text string
		byDefault          bool
		kind               error
	}{
		{"docker", "/etc/docker/daemon.json", "\xef\xbb\xbf{}", false, hinterr.ErrDamaged},
		{"docker", "/etc/docker/daemon.json", "{ // a comment\n}", false, hinterr.ErrDamaged},
		{"docker", "/etc/docker/daemon.json", "{", false, hinterr.ErrDamaged},
		{"docker", "/etc/docker/daemon.json", "[]", false, hinterr.ErrDamaged},
		{"docker", "/etc/docker/daemon.json", `{"runtimes": 1}`, false, hinterr.ErrDamaged},
		{"docker", "/etc/docker/daemon.json", `{"default-runtime": "nvidia"}`, true, hinterr.ErrUnsupported},
		{"containerd", "/etc/containerd/config.toml", "version = ", false, hinterr.ErrDamaged},
		{"containerd", "/etc/containerd/config.toml", "version = 9", false, hinterr.ErrUnsupported},
		{"k3s", "/etc/x", "", false, hinterr.ErrNotFound},
		{"k0s", "/etc/x", "", false, hinterr.ErrNotFound},
	} {
		root := machine(t, map[string]string{c.file: c.text})
		before := contents(t, root)
		o := options(root, c.engine)
		o.Default = c.byDefault
		_, err := Install(o)
		if !errors.Is(err, c.kind) || !strings.Contains(err.Error(), ": ") {
			t.Errorf("%s with %q: got %v, want %v", c.engine, c.text, err, c.kind)
		}
		if after := contents(t, root); !maps.Equal(before, after) {
			t.Errorf("%s with %q: changed to %v", c.engine, c.text, after)
		}
	}
}

// TestDefaultRuntime: docker goes on using its default runtime until it is restarted, so the program stays that long.
func TestDefaultRuntime(t *testing.T) {
	const daemon = "/etc/docker/daemon.json"
	root := machine(t, map[string]string{daemon: "{}\n"})
	o := options(root, "docker")
	o.Default = true
	if _, err := Install(o); err != nil {
		t.Fatal(err)
	}
	if text := contents(t, root)[daemon]; !strings.Contains(text, `"default-runtime":"vfix"`) {
		t.Errorf("got %s", text)
	}
	first, err := Uninstall(Options{Root: root})
	after := contents(t, root)
	if err != nil || !first.Stays || !slices.Equal(first.Commands, []string{"systemctl restart docker"}) {
		t.Errorf("got %+v, %v", first, err)
	}
	if strings.Contains(after[daemon], "default-runtime") || !strings.Contains(after[daemon], RuntimePath) || after[RuntimePath] == "" {
		t.Errorf("after one uninstall: %v", after)
	}
	second, err := Uninstall(Options{Root: root})
	if after := contents(t, root); err != nil || second.Stays || !maps.Equal(after, contents(t, machine(t, nil))) {
		t.Errorf("after another one: %+v, %v, %v", second, err, after)
	}
}

// TestUsers: what running containers execute stays, and the programs stay with the last engine.
func TestUsers(t *testing.T) {
	const task = rancherState + "/io.containerd.runtime.v2.task/k8s.io/abc/runtime"
	root := machine(t, map[string]string{k3sConfig: k3sText, task: RuntimePath, rancherState + "/io.containerd.runtime.v2.task/k8s.io/other/runtime": "/bin/runc"})
	for _, engine := range []string{"k3s", "podman"} {
		if _, err := Install(options(root, engine)); err != nil {
			t.Fatal(err)
		}
	}
	got, err := Uninstall(Options{Root: root, Engine: "k3s"})
	if err != nil || !got.Stays || !slices.Equal(got.Users, []string{"abc"}) || len(got.Changes) > 0 {
		t.Errorf("got %+v, %v", got, err)
	}
	if err := os.Remove(filepath.Join(root, task)); err != nil {
		t.Fatal(err)
	}
	got, err = Uninstall(Options{Root: root, Engine: "k3s"})
	after := contents(t, root)
	if err != nil || got.Stays || after[k3sDropIn] != "" || after[RuntimePath] == "" || after[hookPath] == "" {
		t.Errorf("got %+v, %v, %v", got, err, after)
	}
	got, err = Uninstall(Options{Root: root, Engine: "podman"})
	if after := contents(t, root); err != nil || after[RuntimePath] != "" || after[hookPath] != "" {
		t.Errorf("got %+v, %v, %v", got, err, after)
	}
	// A directory that is empty goes with its file; others stay.
	for dir, stays := range map[string]bool{Dir: false, filepath.Dir(hookPath): false, filepath.Dir(k3sConfig): true} {
		if _, err := os.Stat(filepath.Join(root, dir)); (err == nil) != stays {
			t.Errorf("%s: got %v, want it to stay: %v", dir, err, stays)
		}
	}
}

// TestUnnamed: nerdctl and ctr run the program by its path, which no configuration names.
func TestUnnamed(t *testing.T) {
	const task = "/run/containerd/io.containerd.runtime.v2.task/default/abc/runtime"
	root := machine(t, map[string]string{task: RuntimePath})
	if _, err := Install(options(root, "podman")); err != nil {
		t.Fatal(err)
	}
	got, err := Uninstall(Options{Root: root, Engine: "podman"})
	after := contents(t, root)
	if err != nil || !got.Stays || !slices.Equal(got.Users, []string{"abc"}) || after[hookPath] != "" || after[RuntimePath] == "" {
		t.Errorf("got %+v, %v, %v", got, err, after)
	}
	if err := os.Remove(filepath.Join(root, task)); err != nil {
		t.Fatal(err)
	}
	got, err = Uninstall(Options{Root: root, Engine: "podman"})
	if after := contents(t, root); err != nil || got.Stays || after[RuntimePath] != "" {
		t.Errorf("got %+v, %v, %v", got, err, after)
	}
}

// TestRoot: a root directory that does not exist is not made.
func TestRoot(t *testing.T) {
	root := filepath.Join(t.TempDir(), "none")
	if _, err := Install(options(root, "podman")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("install: got %v", err)
	}
	if _, err := Uninstall(Options{Root: root}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("uninstall: got %v", err)
	}
	if _, err := os.Stat(root); err == nil {
		t.Error("it was made")
	}
}

// TestOwner: the owner of a configuration file, and a symlink to it, stay.
func TestOwner(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can change owners")
	}
	const user, group = 7, 8
	root := machine(t, map[string]string{"/srv/daemon.json": "{}", "/etc/docker/other": ""})
	real, link := filepath.Join(root, "srv/daemon.json"), filepath.Join(root, "etc/docker/daemon.json")
	if err := errors.Join(os.Chown(real, user, group), os.Symlink("../../srv/daemon.json", link)); err != nil {
		t.Fatal(err)
	}
	if _, err := Install(options(root, "docker")); err != nil {
		t.Fatal(err)
	}
	fi, err := os.Lstat(real)
	if err != nil {
		t.Fatal(err)
	}
	if st := fi.Sys().(*syscall.Stat_t); st.Uid != user || st.Gid != group {
		t.Errorf("owner: got %d:%d", st.Uid, st.Gid)
	}
	if to, err := os.Readlink(link); err != nil || to != "../../srv/daemon.json" {
		t.Errorf("link: got %q, %v", to, err)
	}
}

// TestUmask: ordinary users can read what root has installed.
func TestUmask(t *testing.T) {
	root := machine(t, nil)
	defer syscall.Umask(syscall.Umask(0o077))
	if _, err := Install(options(root, "podman")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{hookPath, filepath.Dir(hookPath), RuntimePath, Dir} {
		fi, err := os.Stat(filepath.Join(root, name))
		if err != nil || fi.Mode().Perm()&0o444 != 0o444 {
			t.Errorf("%s: got %v, %v", name, fi.Mode(), err)
		}
	}
}

// TestReplaced: whoever executes the program while it is replaced finds an old or a new one.
func TestReplaced(t *testing.T) {
	root := machine(t, nil)
	o := options(root, "podman")
	if _, err := Install(o); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	var reader sync.WaitGroup
	reader.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
			}
			if text, err := os.ReadFile(filepath.Join(root, RuntimePath)); err != nil || string(text) != "two" && string(text) != "three" {
				t.Errorf("got %q, %v", text, err)
				return
			}
		}
	})
	for i := range 200 {
		o.Programs[RuntimeName] = []byte([]string{"three", "two"}[i%2])
		if _, err := Install(o); err != nil {
			t.Error(err)
		}
	}
	close(done)
	reader.Wait()
}
