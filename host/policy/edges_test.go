package policy

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"

	"vfix.dev/vfix/host/starts"
	"vfix.dev/vfix/internal/nodefile"
	"vfix.dev/vfix/rewriter/find"
)

// Each bound of a configuration, at it and beyond.
func TestBoundsOfValues(t *testing.T) {
	for _, c := range []struct {
		config Config
		member string // that is wrong; "" for none
	}{
		{Config{CacheSize: mostBytes}, ""},
		{Config{CacheSize: mostBytes + 1}, "cache_size"},
		{Config{Limits: Limits{Seconds: mostSeconds}}, ""},
		{Config{Limits: Limits{Seconds: mostSeconds + 1}}, "limits.seconds"},
		{Config{Limits: Limits{Names: -1}}, "limits.names"},
		{Config{Limits: Limits{CopyBytes: -1}}, "limits.copy_bytes"},
		{Config{Limits: Limits{MemoryBytes: -1}}, "limits.memory_bytes"},
		{Config{Record: starts.Journal}, ""},
		{Config{Record: starts.None}, ""},
		{Config{Record: "/var/log/x"}, ""},
		{Config{Record: "log/x"}, "record"},
		{Config{Metrics: "/x.prom"}, ""},
		{Config{Metrics: "x.prom"}, "metrics"},
		{Config{Metrics: "/x"}, "metrics"},
		{Config{CacheDir: "x"}, "cache_dir"},
		{Config{Runtime: "a\x00"}, "runtime"},
		{Config{Fix: "nothing"}, "fix"},
		{Config{TrustedHooks: "/a,/b/c"}, ""},
		{Config{TrustedHooks: "/a,b"}, "trusted_hooks"},
		{Config{TrustedHooks: "/a/../b"}, "trusted_hooks"},
		{Config{ImmutableRoots: "/a,"}, "immutable_roots"},
	} {
		text, err := c.config.Bytes()
		if c.member == "" && err != nil || c.member != "" && (err == nil || !strings.HasPrefix(err.Error(), c.member+": ")) {
			t.Errorf("%+v: got %v, want %q", c.config, err, c.member)
		}
		if err != nil && text != nil {
			t.Errorf("%+v: got %q with an error", c.config, text)
		}
	}
}

// With fail_closed, a runtime that vfix does not know must be named as one that brings no programs.
func TestRefusesAll(t *testing.T) {
	for _, c := range []struct {
		config Config
		want   bool
	}{
		{Config{FailClosed: true}, false},
		{Config{FailClosed: true, Runtime: "/opt/runc"}, false},
		{Config{FailClosed: true, Runtime: "crun"}, false},
		{Config{FailClosed: true, Runtime: "/usr/bin/nvidia-container-runtime.cdi"}, false},
		{Config{Runtime: "/opt/runsc"}, false},
		{Config{FailClosed: true, Runtime: "/opt/runsc"}, true},
		{Config{FailClosed: true, Runtime: "/opt/runsc", TrustedHooks: "/opt/runs"}, true},
		{Config{FailClosed: true, Runtime: "/opt/runsc", TrustedHooks: "/a,/opt/runsc"}, false},
	} {
		if err := c.config.RefusesAll(); (err != nil) != c.want || c.want && !strings.Contains(err.Error(), "/opt/runsc") {
			t.Errorf("%+v: got %v", c.config, err)
		}
	}
}

func TestDefaults(t *testing.T) {
	if got, want := (Limits{}).WithDefaults(), (Limits{2 << 20, 1 << 30, 60, 512 << 20}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	own := Limits{1, 2, 3, 4}
	if got := own.WithDefaults(); got != own {
		t.Errorf("got %+v, want %+v", got, own)
	}
	if got := (Config{}).CacheBytes(); got != 2<<30 {
		t.Errorf("cache: got %d bytes", got)
	}
	if got := (Config{CacheSize: 7}).CacheBytes(); got != 7 {
		t.Errorf("cache: got %d bytes, want 7", got)
	}
	if got := (Config{Limits: Limits{Seconds: 1.5}}).HookLimit(); got != 11500*time.Millisecond {
		t.Errorf("limit of a hook: got %v", got)
	}
	if got := (Config{}).HookTimeout(); got != 80*time.Second {
		t.Errorf("time-out of a hook: got %v", got)
	}
	if got := (Config{CacheDir: "/c"}).Cache(); got != "/c" {
		t.Errorf("cache: got %s", got)
	}
	if got := (Config{Record: "/r"}).RecordFile(); got != "/r" {
		t.Errorf("record: got %s", got)
	}
}

// Root's directories are the machine's, whatever the environment says; another user's are his own.
func TestDirsOfAUser(t *testing.T) {
	t.Setenv("HOME", "/home/x")
	t.Setenv("XDG_DATA_HOME", "/data")
	t.Setenv("XDG_STATE_HOME", "state") // according to the specification a relative one is ignored
	cache, record := "/data/vfix", "/home/x/.local/state/vfix/starts.jsonl"
	if !Rootless() {
		cache, record = "/var/lib/vfix", "/var/log/vfix/starts.jsonl"
	}
	if got := (Config{}).Cache(); got != cache {
		t.Errorf("cache: got %s, want %s", got, cache)
	}
	if got := (Config{}).RecordFile(); got != record {
		t.Errorf("record: got %s, want %s", got, record)
	}
	for _, c := range []struct{ variable, home, want string }{
		{"/data", "/home/x", "/data/vfix"},
		{"/data", "", "/data/vfix"},
		{"data", "/home/x", "/home/x/usual/vfix"},
		{"", "/home/x", "/home/x/usual/vfix"},
		{"", "home", ""},
		{"data", "", ""},
	} {
		t.Setenv("HOME", c.home)
		t.Setenv("XDG_DATA_HOME", c.variable)
		if got := userDir("XDG_DATA_HOME", "usual"); got != c.want {
			t.Errorf("%q, home %q: got %q, want %q", c.variable, c.home, got, c.want)
		}
	}
}

// asUser runs a test of this program again as a user who is not root, or as root of a user namespace.
func asUser(t *testing.T, test string, attr *syscall.SysProcAttr) {
	t.Helper()
	if os.Getenv("VFIX_TEST_AS") != "" {
		return
	}
	dir, err := os.MkdirTemp("", "policy-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err := errors.Join(os.Chmod(dir, 0o755), os.Mkdir(dir+"/home", 0o755), os.Chown(dir+"/home", 1234, 1234)); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	program := dir + "/test"
	if err := os.WriteFile(program, text, 0o755); err != nil {
		t.Fatal(err)
	}
	out, p := dir+"/home/out", (*os.Process)(nil)
	f, err := os.Create(out)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	p, err = os.StartProcess(program, []string{program, "-test.run=^" + test + "$", "-test.v"}, &os.ProcAttr{
		Dir: dir + "/home", Files: []*os.File{nil, f, f}, Sys: attr,
		Env: append(os.Environ(), "VFIX_TEST_AS=1", "HOME="+dir+"/home", "TMPDIR="+dir+"/home", "XDG_DATA_HOME=", "XDG_STATE_HOME="),
	})
	if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.ENOSPC) {
		t.Skipf("needs a user namespace: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	state, err := p.Wait()
	said, _ := os.ReadFile(out)
	if err != nil || !state.Success() || !strings.Contains(string(said), "--- PASS: "+test) {
		t.Errorf("%v, %v: %s", state, err, said)
	}
}

// A user who is not root, and root of a user namespace, have a configuration and directories of their own; who else can
// write the file is theirs to say, and what root has kept is not for them to read.
func TestRootless(t *testing.T) {
	if os.Getenv("VFIX_TEST_AS") == "" {
		if os.Geteuid() != 0 {
			t.Skip("needs root: becomes another user")
		}
		if Rootless() {
			t.Error("root: got rootless")
		}
		asUser(t, "TestRootless", &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 1234, Gid: 1234}})
		asUser(t, "TestRootless", &syscall.SysProcAttr{
			Cloneflags:  syscall.CLONE_NEWUSER,
			Credential:  &syscall.Credential{NoSetGroups: true},
			UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: 1234, Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: 1234, Size: 1}},
		})
		return
	}
	if !Rootless() {
		t.Fatal("got root")
	}
	home := os.Getenv("HOME")
	if got, want := (Config{}).Cache(), home+"/.local/share/vfix"; got != want {
		t.Errorf("cache: got %s, want %s", got, want)
	}
	if got, want := (Config{}).RecordFile(), home+"/.local/state/vfix/starts.jsonl"; got != want {
		t.Errorf("record: got %s, want %s", got, want)
	}
	i := newIn(t)
	i.write(`{"opt_in": true}`)
	if err := os.Chmod(i.path, 0o666); err != nil {
		t.Fatal(err)
	}
	if p := i.start(false); p.Source != starts.FromFile || !p.OptIn {
		t.Errorf("writable by others: got %s, %v", p.Source, p.Err)
	}
	os.Remove(i.path)
	if p := i.start(false); p.Source != starts.LastGood || !p.OptIn {
		t.Errorf("removed: got %s, %v", p.Source, p.Err)
	}
	t.Setenv("HOME", "")
	if got := (Config{}).RecordFile(); got != starts.None {
		t.Errorf("no home: got %s", got)
	}
	// Nothing can be kept if the user may not write: that is not a reason to refuse a start.
	i.write(`{}`)
	p := Load(i.path, false, "/proc/1/x")
	if err := p.Keep(); p.Source != starts.FromFile || err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no directory: got %s, %v", p.Source, err)
	}
	closed := t.TempDir()
	if err := os.Chmod(closed, 0o500); err != nil {
		t.Fatal(err)
	}
	if p := Load(i.path, false, closed+"/x"); os.Geteuid() != 0 {
		if err := p.Keep(); err != nil {
			t.Errorf("a directory that the user may not write: got %v", err)
		}
	}
}

// A configuration that cannot be kept is an error that names the configuration.
func TestNotKept(t *testing.T) {
	for name, state := range map[string]string{"a file in place of the directory": "file", "a directory in place of the file": "directory"} {
		i := newIn(t)
		i.write(`{"opt_in": true}`)
		switch state {
		case "file":
			if err := os.WriteFile(i.state, nil, 0o600); err != nil {
				t.Fatal(err)
			}
		case "directory":
			if err := os.MkdirAll(keptPath(i.state, i.path)+"/x", 0o700); err != nil {
				t.Fatal(err)
			}
		}
		p := Load(i.path, false, i.state)
		if err := p.Keep(); err == nil || !strings.Contains(err.Error(), i.path) || !strings.Contains(err.Error(), "not kept") {
			t.Errorf("%s: got %v", name, err)
		}
		left, _ := filepath.Glob(filepath.Join(i.state, keptDir, ".*"))
		if len(left) > 0 {
			t.Errorf("%s: left %v", name, left)
		}
	}
}

// While another start keeps a configuration, this one keeps nothing and waits for nothing; a file that is changed
// after it was read is kept as it is then.
func TestKeptByAnother(t *testing.T) {
	i := newIn(t)
	i.write(`{"opt_in": true}`)
	i.start(false)
	unlock, err := nodefile.Lock(filepath.Dir(keptPath(i.state, i.path)), 0)
	if err != nil {
		t.Fatal(err)
	}
	i.write(`{"fail_closed": true}`)
	i.start(false)
	if c, err := lastGood(i.state, i.path); err != nil || !c.OptIn {
		t.Errorf("locked: got %+v, %v", c, err)
	}
	unlock()
	p := Load(i.path, false, i.state)
	i.write(`{"runtime": "crun"}`)
	if err := p.Keep(); err != nil {
		t.Fatal(err)
	}
	if c, err := lastGood(i.state, i.path); err != nil || c.Runtime != "crun" {
		t.Errorf("changed meanwhile: got %+v, %v", c, err)
	}
	p = Load(i.path, false, i.state)
	p.text = []byte(`{}`)
	os.Remove(i.path)
	if err := p.Keep(); err != nil {
		t.Fatal(err)
	}
	if c, err := lastGood(i.state, i.path); err != nil || c.Runtime != "crun" {
		t.Errorf("removed meanwhile: got %+v, %v", c, err)
	}
	if _, err := nodefile.Lock(filepath.Join(i.state, "none"), 0); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no directory: got %v", err)
	}
}

// The kept configuration, and why it is not taken.
func TestKeptWords(t *testing.T) {
	i := newIn(t)
	i.write(`{}`)
	i.start(false)
	at := keptPath(i.state, i.path)
	if name := filepath.Base(at); len(name) != len("0123456789abcdef.json") {
		t.Errorf("got the name %s", name)
	}
	for text, want := range map[string]string{
		`{"format":2,"path":"` + i.path + `","config":"{}"}`: "format 2 of",
		`{"format":1,"path":"/x","config":"{}"}`:             "format 1 of /x",
		`{"format":1,"path":"` + i.path + `","config":"x"}`:  "not valid JSON",
		`[]`: "got an array",
	} {
		if err := os.WriteFile(at, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := lastGood(i.state, i.path); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), at) {
			t.Errorf("%s: got %v, want %q", text, err, want)
		}
	}
	old, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	defer os.Chdir(old)
	if err := os.Chdir(filepath.Dir(i.path)); err != nil {
		t.Fatal(err)
	}
	if got := keptPath(i.state, "runtime.json"); got != at {
		t.Errorf("a relative path: got %s, want %s", got, at)
	}
}

// FIFOs and the like are not files that were kept.
func TestOwnedAlone(t *testing.T) {
	dir := t.TempDir()
	if err := errors.Join(os.Chmod(dir, 0o700), syscall.Mkfifo(dir+"/fifo", 0o600), os.WriteFile(dir+"/file", nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{"fifo": false, "file": true} {
		fi, err := os.Lstat(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if err := ownedAlone(dir, fi); (err == nil) != want {
			t.Errorf("%s: got %v", name, err)
		}
	}
	fi, _ := os.Lstat(dir + "/file")
	if err := ownedAlone(dir+"/none", fi); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no directory: got %v", err)
	}
	if err := rootsAlone(dir + "/none"); !Rootless() && !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: got %v", err)
	}
	if err := os.Remove(dir + "/file"); err != nil {
		t.Fatal(err)
	}
	if err := Put(dir+"/none/x", nil, 0o600); err == nil {
		t.Error("Put without a directory: got no error")
	}
}

// An annotation that repeats a fix of the configuration adds nothing to it.
func TestDecideRepeatsNothing(t *testing.T) {
	d, err := Config{Fix: "java-cgroups"}.Decide(map[string]string{AnnotationFix: "java-cgroups"})
	if err != nil || !reflect.DeepEqual(d.Fix, []find.Fix{find.Fixes[0]}) {
		t.Errorf("got %v, %v", d.Fix, err)
	}
	if _, err := (Config{Fix: "nothing"}).Decide(nil); err == nil || !strings.Contains(err.Error(), "fix") {
		t.Errorf("got %v", err)
	}
}

func TestForgetRefuses(t *testing.T) {
	root := t.TempDir()
	at := filepath.Join(root, keptPath(DefaultCacheDir, ConfigFile))
	if err := os.MkdirAll(at+"/x", 0o700); err != nil {
		t.Fatal(err)
	}
	if err := Forget(root, ConfigFile); err == nil {
		t.Error("a directory with files: got no error")
	}
}
