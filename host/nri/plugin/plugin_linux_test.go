package plugin

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/containerd/nri/pkg/adaptation"
	"github.com/containerd/nri/pkg/api"
	validator "github.com/containerd/nri/plugins/default-validator/builtin"

	"vfix.dev/vfix/host/nri"
	"vfix.dev/vfix/host/policy"
)

// node is an engine's side of NRI, from its library, and a running plugin.
type node struct {
	*adaptation.Adaptation
	t   *testing.T
	o   Options
	mu  sync.Mutex
	log []string
}

func newNode(t *testing.T, with ...adaptation.Option) *node {
	t.Helper()
	dir := t.TempDir()
	n := &node{t: t}
	n.o = Options{Options: nri.Options{
		Socket: filepath.Join(dir, "s"), Dir: filepath.Join(dir, "hook"), Config: filepath.Join(dir, "policy.json"),
	}, Hook: []byte("program")}
	n.o.Log = func(format string, args ...any) {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.log = append(n.log, fmt.Sprintf(format, args...))
	}
	n.o.Result = n.o.Log
	var err error
	n.Adaptation, err = adaptation.New("containerd", "1.0.0",
		func(ctx context.Context, sync adaptation.SyncCB) error { _, err := sync(ctx, nil, nil); return err },
		func(context.Context, []*api.ContainerUpdate) ([]*api.ContainerUpdate, error) { return nil, nil },
		append(with, adaptation.WithSocketPath(n.o.Socket), adaptation.WithPluginPath(filepath.Join(dir, "none")))...)
	if err == nil {
		err = n.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// run starts the plugin, and ends it with the test.
func (n *node) run() {
	n.t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- Run(ctx, n.o) }()
	n.t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			n.t.Error(err)
		}
		n.Stop()
	})
	n.connected(1, 1)
}

// connected waits for a number of connections in all, and until the engine calls a number of plugins for a
// container: this may be some time after the plugin knows that it is connected.
func (n *node) connected(times, plugins int) {
	n.t.Helper()
	n.await("connected to containerd 1.0.0", times)
	const patience = 2000
	for range patience {
		before := n.count("not patched")
		if _, err := n.create(&api.PodSandbox{Annotations: map[string]string{"dev.vfix.enable": "false"}}, legacy("probe")); err != nil {
			n.t.Fatal(err)
		}
		if n.count("not patched") == before+plugins {
			return
		}
		time.Sleep(time.Millisecond)
	}
	n.t.Fatalf("%d plugins are not asked", plugins)
}

// count returns how often a text is in the log.
func (n *node) count(text string) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return strings.Count(strings.Join(n.log, "\n"), text)
}

// await waits until a number of lines of the log have a text.
func (n *node) await(text string, times int) {
	n.t.Helper()
	const patience, pause = 20 * time.Second, 10 * time.Millisecond
	for end := time.Now().Add(patience); n.count(text) < times; time.Sleep(pause) {
		if time.Now().After(end) {
			n.mu.Lock()
			defer n.mu.Unlock()
			n.t.Fatalf("%q is not %d times in the log: %s", text, times, strings.Join(n.log, "\n"))
		}
	}
}

// policy replaces the configuration of an earlier case: a write would create the target of a dangling symlink.
func (n *node) policy(text string) {
	n.t.Helper()
	if err := os.RemoveAll(n.o.Config); err != nil {
		n.t.Fatal(err)
	}
	if err := os.WriteFile(n.o.Config, []byte(text), 0o600); err != nil {
		n.t.Fatal(err)
	}
}

func (n *node) create(pod *api.PodSandbox, c *api.Container) (*api.ContainerAdjustment, error) {
	pod.Namespace, pod.Name, c.Name = "ns", "pod", "c"
	r, err := n.CreateContainer(context.Background(), &api.CreateContainerRequest{Pod: pod, Container: c})
	return r.GetAdjust(), err
}

// legacy is a container of a legacy image.
func legacy(id string) *api.Container {
	return &api.Container{Id: id, Annotations: map[string]string{"io.kubernetes.cri.image-name": "legacy:1"}}
}

func TestHookIsAdded(t *testing.T) {
	n := newNode(t)
	n.run()
	got, err := n.create(&api.PodSandbox{Annotations: map[string]string{"dev.vfix.fallback": "always", "other": "x"}}, legacy("1"))
	if err != nil {
		t.Fatal(err)
	}
	hooks := got.GetHooks().GetCreateRuntime()
	if len(hooks) != 1 || hooks[0].Path != filepath.Join(n.o.Dir, "vfix-runtime") ||
		strings.Join(hooks[0].Args, " ") != "vfix-runtime --vfix-config "+filepath.Join(n.o.Dir, "runtime.json")+" --policy-source defaults hook" ||
		hooks[0].Timeout.GetValue() != int64(policy.Config{}.HookTimeout().Seconds()) {
		t.Errorf("hooks: got %v", hooks)
	}
	if a := got.GetAnnotations(); len(a) != 1 || a["dev.vfix.fallback"] != "always" {
		t.Errorf("annotations: got %v", a)
	}
	for name, want := range map[string]string{"vfix-runtime": "program", "runtime.json": "{}\n"} {
		if b, err := os.ReadFile(filepath.Join(n.o.Dir, name)); err != nil || string(b) != want {
			t.Errorf("%s: got %q, %v", name, b, err)
		}
	}
	// Somebody removes it: the next container must not fail on that.
	if err := os.RemoveAll(n.o.Dir); err != nil {
		t.Fatal(err)
	}
	n.policy(`{"limits": {"seconds": 5}}`)
	got, err = n.create(&api.PodSandbox{}, legacy("2"))
	if err != nil || got.GetHooks().GetCreateRuntime()[0].Timeout.GetValue() != 25 {
		t.Errorf("with another policy: got %v, %v", got, err)
	}
	if _, err := os.Stat(filepath.Join(n.o.Dir, "vfix-runtime")); err != nil {
		t.Error(err)
	}
	got, err = n.create(&api.PodSandbox{RuntimeHandler: "kata-qemu"}, legacy("3"))
	if hooks := got.GetHooks().GetCreateRuntime(); err != nil || len(hooks) > 0 {
		t.Errorf("Kata: got %v, %v", hooks, err)
	}
	n.await("use 'vfix rebuild legacy:1', or the pod annotation io.katacontainers.config.hypervisor.kernel_params: vsyscall=emulate", 1)
}

// During an upgrade, two plugins run for a moment.
func TestHookIsAddedOnce(t *testing.T) {
	n := newNode(t)
	n.run()
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- Run(ctx, n.o) }()
	n.connected(2, 2)
	got, err := n.create(&api.PodSandbox{}, legacy("1"))
	if hooks := got.GetHooks().GetCreateRuntime(); err != nil || len(hooks) != 1 {
		t.Errorf("got %v, %v", hooks, err)
	}
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// A validator that forbids hooks is named, with a remedy.
func TestForbiddenHook(t *testing.T) {
	n := newNode(t, adaptation.WithDefaultValidator(&validator.DefaultValidatorConfig{Enable: true, RejectOCIHookAdjustment: true}))
	n.run()
	pod, c := &api.PodSandbox{}, legacy("1")
	_, err := n.create(pod, c)
	const says = "attempted restricted OCI hook injection"
	if err == nil || !strings.Contains(err.Error(), says) {
		t.Fatalf("got %v", err)
	}
	// The engine undoes what it began (containerd's UndoCreateContainer).
	if err := n.RemoveContainer(context.Background(), &api.RemoveContainerRequest{Pod: pod, Container: c}); err != nil {
		t.Fatal(err)
	}
	n.await(says, 1)
	n.await("use the RuntimeClass vfix", 1)
}

// CRI-O does not report containers to plugins that a validator or the hook refused: the record shows it, or that
// it did not start.
func TestUncreatedContainersAreNoticed(t *testing.T) {
	lines := make(chan string, 10)
	h := &hooker{pending: map[string]*hookedContainer{}, firstWait: time.Millisecond}
	h.Log = func(format string, args ...any) { lines <- fmt.Sprintf(format, args...) }
	h.config.Record = filepath.Join(t.TempDir(), "starts.jsonl")
	const record = `{"container":"refused","outcome":"refused","reason":"no room"}` + "\n" + `{"container":"patched","outcome":"patched"}` + "\n"
	if err := os.WriteFile(h.config.Record, []byte(record), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"created", "refused", "forbidden"} {
		h.added(id, subject{namespace: "ns", pod: "pod", container: id})
		if id == "created" {
			if err := h.PostCreateContainer(context.Background(), nil, &api.Container{Id: id}); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, want := range []string{"ns/pod/refused: refused: no room", "ns/pod/forbidden: the engine did not create the container"} {
		if got := <-lines; !strings.HasPrefix(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.pending) != 1 || h.pending["created"] == nil {
		t.Errorf("remembered: %v", h.pending)
	}
}

// One that starts has no line about a validator.
func TestStartIsReported(t *testing.T) {
	n := newNode(t)
	record := filepath.Join(t.TempDir(), "starts.jsonl")
	n.policy(fmt.Sprintf(`{"record": %q}`, record))
	n.run()
	ctx := context.Background()
	for id, line := range map[string]string{
		"patched": `{"container":"patched","outcome":"patched","files":[{"path":"/a"}]}`,
		"partial": `{"container":"partial","outcome":"partial","problems":[{"path":"/b","reason":"no room"}]}`,
		"lost":    `{}`,
	} {
		if err := os.WriteFile(record, []byte(line+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		pod, c := &api.PodSandbox{}, legacy(id)
		if _, err := n.create(pod, c); err != nil {
			t.Fatal(err)
		}
		if err := n.PostCreateContainer(ctx, &api.PostCreateContainerRequest{Pod: pod, Container: c}); err != nil {
			t.Fatal(err)
		}
		if err := n.StartContainer(ctx, &api.StartContainerRequest{Pod: pod, Container: c}); err != nil {
			t.Fatal(err)
		}
		if err := n.RemoveContainer(ctx, &api.RemoveContainerRequest{Pod: pod, Container: c}); err != nil {
			t.Fatal(err)
		}
		n.await(map[string]string{"patched": "patched 1 files", "partial": "partial: /b: no room", "lost": "left no record"}[id], 1)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if all := strings.Join(n.log, "\n"); strings.Contains(all, "validator") {
		t.Errorf("a validator is suspected: %s", all)
	}
}

// The engine stops and comes back: the connection between it and the plugin is cut.
func TestReconnects(t *testing.T) {
	n := newNode(t)
	engine := n.o.Socket
	n.o.Socket += "2"
	cut := between(t, n.o.Socket, engine)
	n.run()
	cut()
	n.await("retrying until the engine answers", 1)
	cut = between(t, n.o.Socket, engine)
	defer cut()
	n.connected(2, 1)
	if got, err := n.create(&api.PodSandbox{}, legacy("1")); err != nil || len(got.GetHooks().GetCreateRuntime()) != 1 {
		t.Errorf("got %v, %v", got, err)
	}
}

// A stricter policy also applies to the engine: it must not create containers without the plugin.
func TestPolicyIsRegisteredAgain(t *testing.T) {
	defer func(was time.Duration) { reread = was }(reread)
	reread = 10 * time.Millisecond
	n := newNode(t)
	n.policy(`{}`)
	n.run()
	registered := func(strict bool) {
		t.Helper()
		line := fmt.Sprintf("registered again: fail_closed is %v", strict)
		for end := time.Now().Add(engineWaits); n.count(line) != 1; time.Sleep(reread) {
			if _, err := n.create(&api.PodSandbox{}, legacy("1")); err != nil && !strings.Contains(err.Error(), "ttrpc: closed") {
				t.Fatal(err)
			}
			if time.Now().After(end) {
				t.Fatalf("not in the log: %s", line)
			}
		}
	}
	n.policy(`{"fail_closed": true, "allow_disable": true}`)
	registered(true)
	n.policy(`{`) // the last good one holds
	n.await("the last good configuration is in force", 1)
	time.Sleep(10 * reread)
	if got := n.count("connected to"); got != 2 {
		t.Errorf("got %d connections", got)
	}
	n.policy(`{}`)
	registered(false)
}

// While the policy, and with it the connection, changes, no container is created without the plugin, and none gets
// the hook twice.
func TestNoContainerIsMissed(t *testing.T) {
	defer func(was time.Duration) { reread = was }(reread)
	reread = time.Millisecond
	n := newNode(t)
	n.policy(`{}`)
	n.run()
	for i := range 200 {
		if i%10 == 0 {
			n.policy(fmt.Sprintf(`{"fail_closed": %v}`, i%20 == 0))
		}
		got, err := n.create(&api.PodSandbox{}, legacy(fmt.Sprint(i)))
		if err != nil { // a request that was under way on a connection that ends: refused, and tried again
			if !strings.Contains(err.Error(), "ttrpc: closed") {
				t.Fatal(err)
			}
			continue
		}
		if hooks := got.GetHooks().GetCreateRuntime(); len(hooks) != 1 {
			t.Fatalf("container %d: got %d hooks, want 1", i, len(hooks))
		}
		time.Sleep(time.Millisecond)
	}
	if n.count("connected to") < 5 {
		t.Errorf("got %d connections: the policy was not registered again", n.count("connected to"))
	}
}

// A late answer costs at most one container: the engine calls the plugin for the next.
func TestLateAnswer(t *testing.T) {
	for _, strict := range []bool{false, true} {
		n := newNode(t)
		n.policy(fmt.Sprintf(`{"fail_closed": %v, "allow_disable": true}`, strict))
		n.run()
		adaptation.SetPluginRequestTimeout(10 * time.Millisecond)
		n.mu.Lock() // and with it the plugin, at its next line in the log
		got, err := n.create(&api.PodSandbox{Annotations: map[string]string{"dev.vfix.enable": "false"}}, legacy("late"))
		n.mu.Unlock()
		adaptation.SetPluginRequestTimeout(engineWaits)
		if strict && err == nil || !strict && err != nil {
			t.Errorf("fail_closed %v: got %v, %v", strict, got, err)
		}
		got, err = n.create(&api.PodSandbox{}, legacy("next"))
		if hooks := got.GetHooks().GetCreateRuntime(); err != nil || len(hooks) != 1 {
			t.Errorf("fail_closed %v: the next container: got %d hooks, %v, want 1", strict, len(hooks), err)
		}
	}
}

// between listens at one socket, and forwards connections to another. Its result closes all.
func between(t *testing.T, from, to string) (cut func()) {
	t.Helper()
	l, err := net.Listen("unix", from)
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	open, over := []io.Closer{l}, false
	go func() {
		for {
			a, err := l.Accept()
			if err != nil {
				return
			}
			b, err := net.Dial("unix", to)
			if err != nil {
				a.Close()
				continue
			}
			both := func() { a.Close(); b.Close() }
			mu.Lock()
			if open = append(open, a, b); over { // accepted while it was cut
				both()
			}
			mu.Unlock()
			go func() { io.Copy(a, b); both() }()
			go func() { io.Copy(b, a); both() }()
		}
	}()
	return func() {
		mu.Lock()
		defer mu.Unlock()
		over = true
		for _, c := range open {
			c.Close()
		}
	}
}

func TestInImage(t *testing.T) {
	const mounts = "1 0 0:1 / / rw - overlay overlay rw\n2 1 8:1 /opt/vfix /opt/vfix rw - ext4 /dev/sda1 rw\n"
	for path, want := range map[string]bool{"/opt/vfix/nri": false, "/opt/vfix": false, "/opt/vfix2": true, "/": true} {
		if got := inImage([]byte(mounts), path); got != want {
			t.Errorf("%s: got %v, want %v", path, got, want)
		}
	}
	if inImage([]byte(strings.ReplaceAll(mounts, "overlay", "ext4")), "/x") {
		t.Error("a disk's root is taken for an image's")
	}
}
