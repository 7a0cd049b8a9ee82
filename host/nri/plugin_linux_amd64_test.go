package nri

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
)

// engine is an engine's side of NRI, from its library, and a running plugin.
type engine struct {
	*adaptation.Adaptation
	t   *testing.T
	o   Options
	mu  sync.Mutex
	log []string
}

func newNode(t *testing.T, with ...adaptation.Option) *engine {
	t.Helper()
	dir := t.TempDir()
	n := &engine{t: t}
	n.o = Options{Socket: filepath.Join(dir, "s"), Dir: dir}
	n.o.Log = func(format string, args ...any) {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.log = append(n.log, fmt.Sprintf(format, args...))
	}
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
func (n *engine) run() {
	n.t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { _ = Serve(ctx, n.o, nil); close(done) }()
	n.t.Cleanup(func() {
		stop()
		<-done
		n.Stop()
	})
	n.connected(1)
}

// connected waits for a number of connections in all, and until the engine calls the plugin for a
// container: this may be some time after the plugin knows that it is connected.
func (n *engine) connected(times int) {
	n.t.Helper()
	n.await("connected to containerd 1.0.0", times)
	const patience = 2000
	for range patience {
		before := n.count("not patched")
		if _, err := n.create(&api.PodSandbox{Annotations: map[string]string{"dev.vfix.enable": "false"}}, legacy("probe")); err != nil {
			n.t.Fatal(err)
		}
		if n.count("not patched") == before+1 {
			return
		}
		time.Sleep(time.Millisecond)
	}
	n.t.Fatal("the plugin is not asked")
}

// count returns how often a text is in the log.
func (n *engine) count(text string) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return strings.Count(strings.Join(n.log, "\n"), text)
}

// await waits until a number of lines of the log have a text.
func (n *engine) await(text string, times int) {
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

func (n *engine) create(pod *api.PodSandbox, c *api.Container) (*api.ContainerAdjustment, error) {
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
	if len(hooks) != 1 || hooks[0].Path != n.o.Hook() ||
		strings.Join(hooks[0].Args, " ") != "vfix-runtime hook" || hooks[0].Timeout.GetValue() != hookSeconds {
		t.Errorf("hooks: got %v", hooks)
	}
	if a := got.GetAnnotations(); len(a) != 1 || a["dev.vfix.fallback"] != "always" {
		t.Errorf("annotations: got %v", a)
	}
	// Somebody removes it: the next container must not fail on that.
	if err := os.Remove(n.o.Hook()); err != nil {
		t.Fatal(err)
	}
	got, err = n.create(&api.PodSandbox{Uid: "2"}, legacy("2"))
	if hooks := got.GetHooks().GetCreateRuntime(); err != nil || len(hooks) > 0 {
		t.Errorf("without the program: got %v, %v", hooks, err)
	}
	n.await("starts unpatched: stat "+n.o.Hook()+": no such file", 1)
	c := legacy("4")
	c.Hooks = &api.Hooks{CreateRuntime: hooks}
	got, err = n.create(&api.PodSandbox{Uid: "4"}, c)
	if hooks := got.GetHooks().GetCreateRuntime(); err != nil || len(hooks) > 0 {
		t.Errorf("with the hook of another plugin: got %v, %v", hooks, err)
	}
	got, err = n.create(&api.PodSandbox{RuntimeHandler: "kata-qemu"}, legacy("3"))
	if hooks := got.GetHooks().GetCreateRuntime(); err != nil || len(hooks) > 0 {
		t.Errorf("Kata: got %v, %v", hooks, err)
	}
	n.await("use 'vfix rebuild legacy:1', or the pod annotation io.katacontainers.config.hypervisor.kernel_params: vsyscall=emulate", 1)
}

// A container that the engine does not create with the hook starts without it.
func TestForbiddenHook(t *testing.T) {
	n := newNode(t, adaptation.WithDefaultValidator(&validator.DefaultValidatorConfig{Enable: true, RejectOCIHookAdjustment: true}))
	n.run()
	pod, c := &api.PodSandbox{Uid: "uid"}, legacy("1")
	if _, err := n.create(pod, c); err == nil || !strings.Contains(err.Error(), "attempted restricted OCI hook injection") {
		t.Fatalf("got %v", err)
	}
	if got, err := n.create(pod, legacy("2")); err != nil || len(got.GetHooks().GetCreateRuntime()) > 0 {
		t.Errorf("the next attempt: got %v, %v", got, err)
	}
	n.await("this node's NRI validator forbids hooks", 1)
	// One that the engine has created gets the hook again, and its successor does.
	pod.Uid = "other"
	n.log = nil
	for _, id := range []string{"3", "4"} {
		_, _ = n.create(pod, legacy(id))
		if err := n.PostCreateContainer(context.Background(), &api.PostCreateContainerRequest{Pod: pod, Container: legacy(id)}); err != nil {
			t.Fatal(err)
		}
	}
	if n.await("hook added", 2); n.count("just refused") != 0 {
		t.Errorf("got %q", n.log)
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
	n.await("retrying until the engine answers: check --socket", 1)
	cut = between(t, n.o.Socket, engine)
	defer cut()
	n.connected(2)
	if got, err := n.create(&api.PodSandbox{}, legacy("1")); err != nil || len(got.GetHooks().GetCreateRuntime()) != 1 {
		t.Errorf("got %v, %v", got, err)
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
