package install

import (
	"compress/gzip"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const (
	daemonJSON     = "{\n    \"log-driver\": \"journald\"\n}"
	containerdTOML = `version = 2
# a comment
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "x"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
      SystemdCgroup = true
`
	k3sTOML = "version = 3\nimports = [\"/var/lib/rancher/k3s/agent/etc/containerd/config-v3.toml.d/*.toml\"]\n[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]\nSystemdCgroup = true\n"
)

// machines are root directories with an engine each: the files in them, and what one of those
// that are written must hold afterwards.
var machines = map[Engine]struct {
	files map[string]string
	file  string
	want  []string
}{
	Docker: {map[string]string{"usr/sbin/dockerd": "", "etc/docker/daemon.json": daemonJSON}, "etc/docker/daemon.json",
		[]string{`"log-driver": "journald",`, `"path": "/usr/local/bin/vfix-runtime"`}},
	Containerd: {map[string]string{"usr/bin/containerd": "", containerdConfig: containerdTOML}, containerdConfig,
		[]string{containerdTOML, "BinaryName = '/usr/local/bin/vfix-runtime'", "pod_annotations = ['dev.vfix.*']"}},
	CRIO: {map[string]string{"usr/bin/crio": ""}, "etc/crio/crio.conf.d/99-vfix.conf",
		[]string{"[crio.runtime.runtimes.vfix]", `runtime_path = "/usr/local/bin/vfix-runtime"`}},
	Podman: {map[string]string{"usr/bin/podman": ""}, "etc/containers/containers.conf.d/99-vfix.conf",
		[]string{"[engine.runtimes]", `vfix = ["/usr/local/bin/vfix-runtime"]`}},
	K3s: {map[string]string{"usr/local/bin/k3s": "", "var/lib/rancher/k3s/agent/etc/containerd/config.toml": k3sTOML},
		"var/lib/rancher/k3s/agent/etc/containerd/config-v3.toml.d/99-vfix.toml", []string{"version = 3\n", "SystemdCgroup = true"}},
	RKE2: {map[string]string{"usr/local/bin/rke2": "", "var/lib/rancher/rke2/agent/etc/containerd/config.toml": "version = 2\n"},
		"var/lib/rancher/rke2/agent/etc/containerd/config.toml.tmpl", []string{`{{ template "base" . }}`, "SystemdCgroup = {{ .SystemdCgroup }}"}},
	K0s: {map[string]string{"usr/local/bin/k0s": "", "etc/k0s/containerd.toml": "# k0s_managed=true\n"},
		"etc/k0s/containerd.d/vfix.toml", []string{"version = 2\n", "BinaryName = "}},
}

// machine makes a root directory.
func machine(t testing.TB, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		put(t, root, name, text)
	}
	return root
}

func put(t testing.TB, root, name, text string) {
	t.Helper()
	path := filepath.Join(root, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o640); err != nil {
		t.Fatal(err)
	}
}

func get(t testing.TB, root, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// snapshot is everything in a root directory: names, modes, owners, times, contents.
func snapshot(t testing.TB, root string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		fi, err := d.Info()
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(root, path)
		fmt.Fprintf(&b, "%s %v", name, fi.Mode())
		if fi.Mode().IsRegular() {
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			fmt.Fprintf(&b, " %v %q", fi.ModTime().UnixNano(), data)
		}
		b.WriteByte('\n')
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// testRuntime is the vfix-runtime in testProgram.
const testRuntime = "\x7fELF\x00runtime"

// testProgram stands for vfix.
func testProgram(t testing.TB) string {
	t.Helper()
	return programWith(t, "Vfix-runtime, compressed\n"+zipped(t, testRuntime)+"the rest")
}

// programWith is a program that ends in a text.
func programWith(t testing.TB, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "vfix")
	if err := os.WriteFile(path, []byte("\x7fELF\x00program "+text), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

func zipped(t testing.TB, text string) string {
	t.Helper()
	var b strings.Builder
	z := gzip.NewWriter(&b)
	_, err := z.Write([]byte(text))
	if err = errors.Join(err, z.Close()); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func options(t testing.TB, e Engine, root string) Options {
	return Options{Engine: e, Root: root, Program: testProgram(t)}
}

func must(t testing.TB, r *Result, err error) *Result {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// Install puts in what each engine needs, twice is once, and uninstall leaves everything as
// it was: to the byte, the mode and the time.
func TestRoundTrip(t *testing.T) {
	for e, m := range machines {
		t.Run(string(e), func(t *testing.T) {
			root := machine(t, m.files)
			before := snapshot(t, root)
			o := options(t, e, root)
			o.DryRun = true
			planned, err := Install(o)
			must(t, planned, err)
			if snapshot(t, root) != before {
				t.Fatal("a dry run writes")
			}
			o.DryRun, o.FailClosed = false, true
			r, err := Install(o)
			must(t, r, err)
			if len(r.Changes) != len(planned.Changes)+1 { // and the runtime's own configuration
				t.Errorf("changes: got %+v, want %+v", r.Changes, planned.Changes)
			}
			text := get(t, root, m.file)
			for _, want := range m.want {
				if !strings.Contains(text, want) {
					t.Errorf("%s: %q is not in %q", m.file, want, text)
				}
			}
			if got := get(t, root, "usr/local/bin/vfix-runtime"); got != testRuntime {
				t.Errorf("runtime: got %q, want %q", got, testRuntime)
			}
			if fi, err := os.Stat(filepath.Join(root, "usr/local/bin/vfix-runtime")); err != nil || fi.Mode() != 0o755 {
				t.Errorf("program: got %v, %v", fi, err)
			}
			after := snapshot(t, root)
			r, err = Install(o)
			if must(t, r, err); len(r.Changes) != 0 || len(r.Commands) != 0 || snapshot(t, root) != after {
				t.Errorf("a second time changes %+v", r.Changes)
			}
			r, err = Uninstall(Options{Root: root})
			must(t, r, err)
			if got := snapshot(t, root); got != before {
				t.Errorf("after uninstall: got\n%s\nwant\n%s", got, before)
			}
			r, err = Uninstall(Options{Root: root})
			if must(t, r, err); len(r.Changes) != 0 || snapshot(t, root) != before {
				t.Errorf("a second uninstall changes %+v", r.Changes)
			}
		})
	}
}

// Later additions to a file stay, and vfix's part goes.
// The files that starts have written are named as long as the last engine's uninstall leaves it.
func TestUninstallNamesWhatStays(t *testing.T) {
	root := machine(t, machines[Docker].files)
	uninstalled := func() string {
		r, err := Install(options(t, Docker, root))
		must(t, r, err)
		r, err = Uninstall(Options{Root: root})
		must(t, r, err)
		return strings.Join(r.Notes, "\n")
	}
	if notes := uninstalled(); strings.Contains(notes, "kept") {
		t.Errorf("nothing was started, and the notes are %q", notes)
	}
	put(t, root, "var/lib/vfix/v1/files/x", "")
	put(t, root, "var/log/vfix/starts.jsonl", "{}")
	notes := uninstalled()
	for _, want := range []string{"the cache is kept: /var/lib/vfix", "the record of starts is kept: /var/log/vfix/starts.jsonl"} {
		if !strings.Contains(notes, want) {
			t.Errorf("got %q, want %q in it", notes, want)
		}
	}
}

func TestUninstallEdited(t *testing.T) {
	for e, m := range machines {
		root := machine(t, m.files)
		o := options(t, e, root)
		r, err := Install(o)
		must(t, r, err)
		text := get(t, root, m.file)
		if e == Docker {
			text = strings.Replace(text, "{", "{\"debug\": true,", 1)
		} else {
			text += "# somebody's own\n"
		}
		put(t, root, m.file, text)
		r, err = Uninstall(Options{Root: root, Engine: e})
		must(t, r, err)
		left := get(t, root, m.file)
		if strings.Contains(left, "vfix-runtime") || !strings.Contains(left, "somebody's own") && !strings.Contains(left, `"debug": true`) ||
			len(r.Warnings) != 1 || !strings.Contains(r.Warnings[0], m.file) {
			t.Errorf("%s: got %q and warnings %q", e, left, r.Warnings)
		}
		if _, err := os.Lstat(filepath.Join(root, stateDir)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: the state stays: %v", e, err)
		}
	}
}
