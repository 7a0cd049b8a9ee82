package plugin

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/containerd/nri/pkg/adaptation"
	"github.com/containerd/nri/pkg/api"

	"vfix.dev/vfix/host/ociruntime"
	examiner "vfix.dev/vfix/host/oldexaminer"
	"vfix.dev/vfix/host/policy"
	"vfix.dev/vfix/host/starts"
)

// This program is also the runtime, the hook and the confined process, selected by its name.
func TestMain(m *testing.M) {
	switch {
	case os.Args[0] == examiner.Name:
		os.Exit(examiner.Main())
	case filepath.Base(os.Args[0]) == programName:
		os.Exit(ociruntime.Run(os.Args[1:], ociruntime.Options{Stdin: os.Stdin, Stderr: os.Stderr}))
	}
	adaptation.SetPluginRequestTimeout(engineWaits)
	os.Exit(m.Run())
}

// engineWaits is how long the engine waits for an answer in these tests, also on busy machines.
const engineWaits = time.Minute

// machine is one with an engine: a bundle whose image has a file that cannot be examined, and a stand-in for runc.
type machine struct {
	*testing.T
	dir, config, bundle string
	n                   *node
}

// write makes a file.
func (m *machine) write(name, text string, mode os.FileMode) {
	m.Helper()
	path := filepath.Join(m.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		m.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		m.Fatal(err)
	}
}

func newMachine(t *testing.T, n *node) *machine {
	m := &machine{T: t, dir: t.TempDir(), n: n}
	m.config, m.bundle = filepath.Join(m.dir, "runtime.json"), filepath.Join(m.dir, "bundle")
	if n != nil {
		m.config = n.o.Config
	}
	m.write("runc", "#!/bin/sh\n: >"+m.dir+"/started\n", 0o755)
	m.write("bundle/rootfs/lib/libc.so.6", "\x7fELF\x02\x01\x01"+strings.Repeat("\x00", 11)+"\x3e", 0o755)
	if err := os.Truncate(filepath.Join(m.bundle, "rootfs/lib/libc.so.6"), 1<<30); err != nil { // of holes
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err == nil {
		err = os.Symlink(self, filepath.Join(m.dir, programName))
	}
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// spec writes the bundle's config.json.
func (m *machine) spec(annotations map[string]string) {
	text, _ := json.Marshal(map[string]any{"root": map[string]any{"path": "rootfs", "readonly": true}, "annotations": annotations})
	m.write("bundle/config.json", string(text), 0o600)
}

// run executes vfix-runtime with private directories in place of the machine's.
func (m *machine) run(stdin string, args ...string) (bool, string) {
	m.Helper()
	const own = `mount --make-rprivate / && mkdir -p "$D/lib" "$D/log" && mount --bind "$D/lib" /var/lib && mount --bind "$D/log" /var/log && exec "$@"`
	cmd := exec.Command("unshare", append([]string{"--mount", "sh", "-ec", own, "sh", filepath.Join(m.dir, programName)}, args...)...)
	cmd.Env = append(os.Environ(), "D="+m.dir)
	cmd.Stdin = strings.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	return err == nil, string(out)
}

// The three entries, and whether the container's program starts through each.
var doors = map[string]func(m *machine, annotations map[string]string) (bool, string){
	"wrapper": func(m *machine, annotations map[string]string) (bool, string) {
		m.spec(annotations)
		os.Remove(filepath.Join(m.dir, "started"))
		_, out := m.run("", "--vfix-config", m.config, "--runtime", filepath.Join(m.dir, "runc"), "create", "--bundle", m.bundle, "c1")
		_, err := os.Stat(filepath.Join(m.dir, "started"))
		return err == nil, out
	},
	"hook": func(m *machine, annotations map[string]string) (bool, string) {
		m.spec(annotations)
		return m.hook("vfix-runtime", "--vfix-config", m.config, "hook")
	},
	"NRI": func(m *machine, annotations map[string]string) (bool, string) {
		got, err := m.n.create(&api.PodSandbox{Annotations: annotations}, legacy(fmt.Sprint("c", time.Now().UnixNano())))
		if err != nil {
			return false, err.Error()
		}
		m.spec(annotations)
		if len(got.GetHooks().GetCreateRuntime()) == 0 {
			return true, "no hook"
		}
		return m.hook(got.GetHooks().GetCreateRuntime()[0].Args...)
	},
}

// hook acts as the real runtime: it starts the container's process if the hook succeeds.
func (m *machine) hook(args ...string) (bool, string) {
	m.Helper()
	process := exec.Command("sleep", "60")
	process.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
	if err := process.Start(); err != nil {
		m.Fatal(err)
	}
	defer func() { _ = process.Wait() }()
	defer func() { _ = process.Process.Kill() }()
	return m.run(fmt.Sprintf(`{"id": "c1", "pid": %d, "bundle": %q}`, process.Process.Pid, m.bundle), args[1:]...)
}

// last returns the policy's source in the last record.
func (m *machine) last(record string) (r starts.Record) {
	all, err := starts.Read(filepath.Join(m.dir, record), 1)
	if err == nil && len(all.Last) == 1 {
		r = all.Last[0]
	}
	return r
}

// For any invalid configuration, at each entry: the previous one remains in force, and without one no unpatched
// container starts. The container has a file that cannot be examined.
func TestBrokenPolicyAtEachDoor(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: mount namespaces")
	}
	broken := map[string]func(path string) error{
		"missing":      func(string) error { return nil },
		"a directory":  func(path string) error { return os.Mkdir(path, 0o755) },
		"a FIFO":       func(path string) error { return syscall.Mkfifo(path, 0o644) },
		"a dead link":  func(path string) error { return os.Symlink("no/where", path) },
		"an I/O error": func(path string) error { return os.Symlink("/proc/self/mem", path) },
		"two gigabytes": func(path string) error {
			return os.WriteFile(path, []byte(`{"runtime": "`+strings.Repeat("x", 2<<20)+`"}`), 0o644)
		},
	}
	for _, text := range []string{
		"", "{", "\xef\xbb\xbf{}", "{} {}", "null", `{"fail_closed": true,}`, `{"fail_closed": "true"}`, `{"Fail_closed": true}`,
		`{"fail_closed": false, "fail_closed": false}`, `{"fallback": "always"}`, `{"limits": {"seconds": 1e400}}`, // the others: host/policy
	} {
		broken[fmt.Sprintf("%q", text)] = func(path string) error { return os.WriteFile(path, []byte(text), 0o644) }
	}
	n, count := newNode(t), 0
	n.run()
	for name, put := range broken { // a policy that is written takes the place of each
		if err := put(n.o.Config); err != nil {
			t.Fatal(err)
		}
		n.policy(`{}`)
		if text, err := os.ReadFile(n.o.Config); err != nil || string(text) != `{}` {
			t.Fatalf("after %s: got %q, %v", name, text, err)
		}
		os.RemoveAll(n.o.Config)
	}
	for door, start := range doors {
		// Controls: what the policy says is what happens.
		for text, want := range map[string]bool{`{}`: true, `{"fail_closed": true}`: false, `{"opt_in": true, "fail_closed": true}`: true} {
			m := newMachine(t, n)
			n.policy(text)
			if got, out := start(m, nil); got != want {
				t.Fatalf("%s, %s: started: got %v: %s", door, text, got, out)
			}
		}
		for name, put := range broken {
			for _, before := range []string{"", `{"fail_closed": true}`, `{"fail_closed": false}`} {
				m := newMachine(t, n)
				if err := os.RemoveAll(filepath.Join(n.o.Dir, "policy")); err != nil { // that of the plugin
					t.Fatal(err)
				}
				os.RemoveAll(m.config)
				if before != "" {
					n.policy(before)
					start(m, nil)
					os.RemoveAll(m.config)
				}
				if err := put(m.config); err != nil {
					t.Fatal(err)
				}
				want := before == `{"fail_closed": false}` || name == "missing" && before == "" && door == "NRI" // never there
				var annotations map[string]string                                                                // in every second case; it must not matter
				if count++; count%2 == 0 {
					annotations = map[string]string{policy.AnnotationEnable: "false"}
				}
				if got, out := start(m, annotations); got != want {
					t.Errorf("%s, %s, before %q, annotations %v: started: got %v, want %v: %s", door, name, before, annotations, got, want, out)
				}
			}
		}
	}
}

// The record has the policy in force.
func TestSourceIsRecorded(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: mount namespaces")
	}
	n := newNode(t)
	n.run()
	for door, start := range doors {
		m := newMachine(t, n)
		n.policy(`{"fail_closed": true}`)
		for _, step := range []struct {
			text string
			want starts.Source
		}{{`{"fail_closed": true}`, starts.FromFile}, {`{`, starts.LastGood}, {`{"fail_closed": true}`, starts.FromFile}} {
			n.policy(step.text)
			if got, out := start(m, nil); got {
				t.Errorf("%s: started: %s", door, out)
			}
			r := m.last("log/vfix/starts.jsonl")
			if r.Policy.Source != step.want || r.Outcome != starts.Refused || len(r.Files) > 0 {
				t.Errorf("%s, %s: got %+v, want %s", door, step.text, r, step.want)
			}
		}
	}
}

// A start whose runtime cannot be executed is not recorded as a start.
func TestRuntimeThatCannotBeExecuted(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: mount namespaces")
	}
	m := newMachine(t, nil)
	m.write("runtime.json", `{}`, 0o600)
	m.write("runc", "no program", 0o755)
	m.spec(nil)
	started, out := m.run("", "--vfix-config", m.config, "--runtime", filepath.Join(m.dir, "runc"), "create", "--bundle", m.bundle, "c1")
	if r := m.last("log/vfix/starts.jsonl"); started || r.Outcome != starts.Refused || !strings.Contains(r.Reason, "runc") || len(r.Files) > 0 {
		t.Errorf("started: %v, record %+v: %s", started, r, out)
	}
}
