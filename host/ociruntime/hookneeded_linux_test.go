package ociruntime

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"

	"vfix.dev/vfix/host/rootfs"
	"vfix.dev/vfix/host/starts"
	"vfix.dev/vfix/internal/tinyelf"
)

// TestNotMade: a hook that sees no /proc where config.json has it looks at another place than the container's.
func TestNotMade(t *testing.T) {
	root, err := rootfs.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	proc := specMount{Destination: "/proc", Type: "proc", Source: "proc"}
	k := &container{root: root, spec: &spec{Mounts: []specMount{proc, {Destination: "/dev/mqueue", Type: "mqueue"}}}}
	if got := k.notMade(); got == "" {
		t.Error("nothing is mounted: got nothing")
	}
	k.mounts = []mount{{&mountinfo.Info{Mountpoint: root.Path + "/proc"}}}
	if got := k.notMade(); got != "" {
		t.Errorf("got %s", got)
	}
	if err := os.Symlink("loop", root.Path+"/loop"); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		specMount
		want bool
	}{
		{specMount{Destination: "/data", Type: "overlay"}, true},
		{specMount{Destination: "/data", Type: "overlay", Options: []string{"copy-symlink"}}, false},
		{specMount{Destination: "/data", Type: "sysfs"}, false},
		{specMount{Destination: "/loop", Type: "overlay"}, true},
		{specMount{Destination: root.Path + "/proc", Type: "overlay"}, false},
		{specMount{Destination: root.Path + "/data", Type: "overlay"}, true},
		{specMount{Destination: root.Path + "x/proc", Type: "overlay"}, true},
		{specMount{Destination: "/x" + root.Path + "/proc", Type: "overlay"}, true},
	} {
		k.spec = &spec{Mounts: []specMount{proc, c.specMount}}
		if got := k.notMade(); strings.HasPrefix(got, c.Destination+": ") != c.want {
			t.Errorf("%+v: got %q", c, got)
		}
	}
}

// A mount at another path than its destination's leaves the start to the hook.
func TestCover(t *testing.T) {
	root, err := rootfs.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	if err := errors.Join(os.Symlink("usr", root.Path+"/link"), os.Symlink("loop", root.Path+"/loop"), os.Mkdir(root.Path+"/usr", 0o755)); err != nil {
		t.Fatal(err)
	}
	for destination, want := range map[string]struct {
		hidden    string
		elsewhere bool
	}{
		"/usr/": {"usr", false}, "usr": {"usr", false}, "//usr/./x": {"usr/x", false}, "/new": {"new", false},
		"/link/x": {"usr/x", true}, "/": {"", true}, "/loop": {"", false},
		root.Path: {root.Path[1:], true}, root.Path + "/usr": {root.Path[1:] + "/usr", true}, root.Path + "x": {root.Path[1:] + "x", false},
	} {
		k := &container{root: root, spec: &spec{Mounts: []specMount{{Destination: destination}}}}
		if err := k.cover(); (err != nil) != (destination == "/loop") {
			t.Errorf("%s: got %v", destination, err)
			continue
		}
		if destination != "/loop" && (len(k.hidden) != 1 || k.hidden[0] != want.hidden || (k.elsewhere != "") != want.elsewhere) {
			t.Errorf("%s: got %q, elsewhere %q", destination, k.hidden, k.elsewhere)
		}
	}
}

// Mounts and files that a container may get later than its root: the hook does the work then.
func TestUnseen(t *testing.T) {
	dir := t.TempDir()
	root, err := rootfs.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	bundle := t.TempDir()
	for name, content := range map[string]string{"text": "x", "program": string(tinyelf.Bytes(1))} {
		if err := os.WriteFile(filepath.Join(bundle, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	machine, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	own, err := os.Readlink("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	mounts := func(all string) string { return `"mounts":[` + all + `]` }
	hooks := func(kind, path string, args ...string) string {
		text, err := json.Marshal([]specHook{{Path: path, Args: args}})
		if err != nil {
			t.Fatal(err)
		}
		return `"hooks":{"` + kind + `":` + string(text) + `}`
	}
	for _, c := range []struct {
		spec, want string
		also       mount
		elsewhere  string
		runtime    string
	}{
		{},
		{also: mount{&mountinfo.Info{Mountpoint: dir + "/x", FSType: "ext4"}}, want: dir + "/x: a mount below"},
		{also: mount{&mountinfo.Info{Mountpoint: dir + "/x", FSType: "proc"}}},
		{also: mount{&mountinfo.Info{Mountpoint: dir + "x", FSType: "ext4"}}},
		{elsewhere: "/data", want: "/data: leads to another path"},
		{runtime: "/usr/bin/nvidia-container-runtime", want: "runtime /usr/bin/nvidia"},
		{runtime: "/opt/trusted"},
		{spec: mounts(`{"destination":"/d","type":"proc"}`)},
		{spec: mounts(`{"destination":"/d","type":"overlay"}`), want: "/d: a mount of the container"},
		{spec: mounts(`{"destination":"/d","type":"tmpfs","options":["size=1m","mode=755","nosuid"]}`)},
		{spec: mounts(`{"destination":"/d","type":"tmpfs","options":["nosuid","tmpcopyup"]}`), want: "/d: "},
		{spec: mounts(`{"destination":"/d","type":"bind","source":"/none/x"}`)},
		{spec: mounts(`{"destination":"/d","type":"bind","source":"` + bundle + `"}`), want: "/d: "},
		{spec: mounts(`{"destination":"/d","source":"program","options":["bind"]}`), want: "/d: "},
		{spec: mounts(`{"destination":"/d","source":"program","options":["rbind"]}`), want: "/d: "},
		{spec: mounts(`{"destination":"/d","type":"proc","source":"text","options":["rbind"]}`)},
		{spec: mounts(`{"destination":"/d","type":"bind","source":"text/below"}`), want: "/d: "}, // ENOTDIR
		{spec: mounts(`{"destination":"/d","type":"bind","source":"/dev/null"}`)},
		{spec: `"linux":{"devices":[{"path":"/dev/null"}]}`},
		{spec: `"linux":{"devices":[{"path":"` + bundle + `/program"}]}`, want: "device " + bundle},
		{spec: hooks("prestart", "/x"), want: "hook /x"},
		{spec: hooks("createRuntime", "/x"), want: "hook /x"},
		{spec: hooks("createRuntime", "/opt/trusted")},
		{spec: hooks("createRuntime", own, "vfix-runtime", HookCommand)},
		{spec: hooks("createRuntime", own, "vfix-runtime", startedCommand)},
		{spec: hooks("createRuntime", own, "vfix-runtime", "run"), want: "hook "},
		{spec: hooks("createRuntime", own), want: "hook "},
		{spec: hooks("createRuntime", "/proc/1/exe", "libnetwork-setkey"), want: "hook /proc/1/exe"}, // no dockerd
		{spec: hooks("poststart", "/x")},                                                             // noteLater's
	} {
		s, err := parseSpec([]byte(`{"root":{"path":"r"}` + strings.TrimSuffix(","+c.spec, ",") + `}`))
		if err != nil {
			t.Fatalf("%s: %v", c.spec, err)
		}
		k := &container{root: root, spec: s, bundle: bundle, machine: parseMounts(machine), elsewhere: c.elsewhere, rec: &starts.Record{Runtime: cmp.Or(c.runtime, "/usr/bin/runc")}}
		k.TrustedHooks = "/opt/trusted"
		if c.also.Info != nil {
			k.mounts = []mount{c.also}
		}
		if got := k.unseen(); !strings.HasPrefix(got, c.want) || (got == "") != (c.want == "") {
			t.Errorf("%+v: got %q", c, got)
		}
	}
}

// Sources of programs that no look at the root shows, not even the hook's.
func TestNoteLater(t *testing.T) {
	t.Setenv("RUN_OCI_SECCOMP_RECEIVER", "")
	for _, c := range []struct {
		spec, command, agent, want string
	}{
		{},
		{command: "run"}, {command: "create"}, {command: "restore", want: "restore: "},
		{spec: `"later":1,"linux":{"newer":2}`, want: "config.json: later: |config.json: linux.newer: "},
		{spec: `"annotations":{"run.oci.handler":"wasm"}`, want: "annotation run.oci.handler=wasm: "},
		{spec: `"annotations":{"run.oci.handler":"/opt/trusted"}`},
		{spec: `"annotations":{"run.oci.handler":"","run.oci.systemd.subgroup":"x","other":"wasm"}`},
		{spec: `"linux":{"seccomp":{"listenerPath":"/run/agent"}}`, want: "seccomp agent /run/agent: "},
		{spec: `"linux":{"seccomp":{"listenerPath":"/opt/trusted"}}`},
		{agent: "/run/agent", want: "seccomp agent /run/agent: "},
		{spec: `"linux":{"namespaces":[{"type":"mount"},{"type":"pid","path":"/proc/1/ns/pid"}]}`},
		{spec: `"linux":{"namespaces":[{"type":"mount","path":"/proc/1/ns/mnt"}]}`, want: "another process's mount namespace"},
		{spec: `"hooks":{"createContainer":[{"path":"/a"}],"startContainer":[{"path":"/b"}],"poststart":[{"path":"/c"}]}`, want: "hook /a: |hook /b: |hook /c: "},
		{spec: `"hooks":{"poststart":[{"path":"/opt/trusted"}],"prestart":[{"path":"/a"}],"createRuntime":[{"path":"/b"}],"poststop":[{"path":"/c"}]}`},
	} {
		t.Setenv("RUN_OCI_SECCOMP_RECEIVER", c.agent)
		s, err := parseSpec([]byte(`{"root":{"path":"r"}` + strings.TrimSuffix(","+c.spec, ",") + `}`))
		if err != nil {
			t.Fatalf("%s: %v", c.spec, err)
		}
		k := &container{root: &rootfs.Root{Path: t.TempDir()}, spec: s, rec: &starts.Record{}}
		k.TrustedHooks = "/opt/trusted"
		k.noteLater(&command{name: c.command})
		want := strings.Split(c.want, "|")
		if c.want == "" {
			want = nil
		}
		same := len(k.rec.Problems) == len(want)
		for i, p := range k.rec.Problems {
			same = same && strings.HasPrefix(p.Reason, want[i])
		}
		if !same {
			t.Errorf("%+v: got %+v", c, k.rec.Problems)
		}
	}
}

// The hook has what the wrapper's command line had, with paths that hold in any directory.
func TestHookOf(t *testing.T) {
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for line, want := range map[string]string{
		"run c": "",
		"--vfix-config x --root r --log l --log-format json --cache-dir c --fail-closed run -f spec c": "--vfix-config " + dir + "/x --container-config " + dir + "/spec --root " + dir + "/r --log " + dir + "/l --cache-dir c --log-format json --fail-closed",
	} {
		c := parseArgs(strings.Fields(line))
		got, err := hookOf(&c, HookCommand, "id", "/usr/bin/runc", 90*time.Second)
		if err != nil || len(got) != 1 || !isOwnHook(got[0]) || !isAdded(got[0]) || got[0].Timeout != 90 {
			t.Fatalf("%s: got %+v, %v", line, got, err)
		}
		all := strings.Join(got[0].Args, " ")
		if want := strings.Join(strings.Fields("vfix-runtime --start-id id --runtime /usr/bin/runc "+want+" hook"), " "); all != want {
			t.Errorf("%s: got %s\nwant %s", line, all, want)
		}
	}
}

// A hook of this program is one by its path, as another link, or by its content.
func TestIsOwnHook(t *testing.T) {
	self, err := os.Readlink("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	program, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	other := bytes.Clone(program)
	other[len(other)-1]++
	for name, content := range map[string][]byte{"copy": program, "other": other, "longer": append(program, 0)} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(self, filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]bool{self: true, dir + "/copy": true, dir + "/link": true, dir + "/other": false, dir + "/longer": false, dir + "/none": false, dir: false} {
		if got := isOwnHook(specHook{Path: path, Args: []string{"vfix-runtime", HookCommand}}); got != want {
			t.Errorf("%s: got %v", path, got)
		}
	}
}

// Docker's hook for the network is the running dockerd; another program with its argument is not, nor dockerd with another.
func TestTrustsDockersHook(t *testing.T) {
	dir := t.TempDir()
	program, err := os.ReadFile("/bin/sleep")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"dockerd", "other"} {
		put(t, filepath.Join(dir, name), string(program), 0o755)
		cmd := exec.Command(filepath.Join(dir, name), "1000")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		defer func() { _, _ = cmd.Process.Kill(), cmd.Wait() }()
		exe := fmt.Sprintf("/proc/%d/exe", cmd.Process.Pid)
		for _, h := range []struct {
			specHook
			want bool
		}{
			{specHook{Path: exe, Args: []string{"libnetwork-setkey", "x"}}, name == "dockerd"},
			{specHook{Path: exe, Args: []string{"setkey"}}, false},
			{specHook{Path: exe}, false},
			{specHook{Path: filepath.Join(dir, name), Args: []string{"libnetwork-setkey"}}, false},
		} {
			if got := (&container{}).trusts(h.specHook); got != h.want {
				t.Errorf("%s: %+v: got %v", name, h.specHook, got)
			}
		}
	}
}

// A mount of an earlier start, and one of a text on a server that may show the container a program.
func TestBringsOfMounts(t *testing.T) {
	root, err := rootfs.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	m := specMount{Destination: "/d", Type: "overlay"}
	k := &container{root: root, spec: &spec{Mounts: []specMount{m}}, rec: &starts.Record{Runtime: "runc"}, earlier: []specMount{m}}
	if got := k.unseen(); got != "" {
		t.Errorf("an earlier start's: got %q", got)
	}
	proc, err := unix.Open("/proc", unix.O_PATH, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(proc)
	var fs unix.Statfs_t
	if err := unix.Fstatfs(proc, &fs); err != nil || fs.Flags&unix.ST_NOEXEC != 0 {
		t.Skip("no program runs from /proc here")
	}
	id, err := rootfs.MountOf(proc)
	if err != nil {
		t.Fatal(err)
	}
	for kind, want := range map[string]bool{"proc": false, "9p": true} {
		k.machine = parseMounts(fmt.Appendf(nil, "%d 1 0:9 / /proc rw - %s x rw\n", id, kind))
		if got := k.brings(specMount{Type: "bind", Source: "/proc/version"}); got != want {
			t.Errorf("%s: got %v", kind, got)
		}
	}
}
