package plugin

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/containerd/nri/pkg/api"
	"golang.org/x/sys/unix"

	"vfix.dev/vfix/host/nri"
	"vfix.dev/vfix/internal/tinyelf"
)

// printed returns options that collect messages and findings.
func printed() (o Options, lines *[]string) {
	lines = new([]string)
	o.Dir = "/hook"
	o.Log = func(format string, args ...any) { *lines = append(*lines, fmt.Sprintf(format, args...)) }
	o.Result = o.Log
	return o, lines
}

// Each image is examined once, with its first container that runs.
func TestAuditSelects(t *testing.T) {
	o, lines := printed()
	o.Selection = nri.Selection{Namespaces: []string{"!kube-system"}}
	a := &auditor{Options: o, seen: map[string]bool{}, queue: make(chan audited, 1)}
	if _, err := a.Configure(context.Background(), "", "containerd", "2.0"); err != nil || a.engine != "containerd" {
		t.Errorf("got engine %q, %v", a.engine, err)
	}
	*lines = nil
	hook := func(path string) *api.Hooks { return &api.Hooks{CreateRuntime: []*api.Hook{{Path: path}}} }
	own := uint32(os.Getpid())
	shop := &api.PodSandbox{Id: "shop", Namespace: "shop", Name: "cart"}
	for _, c := range []struct {
		what   string
		pod    *api.PodSandbox
		c      *api.Container
		queued bool
		log    string
	}{
		{"the first", shop, &api.Container{Id: "1", Pid: own, Image: &api.Image{Name: "a", Digest: "1"}}, true, ""},
		{"the same image", shop, &api.Container{Id: "2", Pid: own, Image: &api.Image{Name: "a", Digest: "1"}}, false, ""},
		{"the same name", shop, &api.Container{Id: "3", Pid: own, Image: &api.Image{Name: "a", Digest: "2"}}, true, ""},
		{"without a name", shop, &api.Container{Id: "4", Pid: own}, true, ""},
		{"another without a name", shop, &api.Container{Id: "5", Pid: own}, true, ""},
		{"not selected", &api.PodSandbox{Id: "system", Namespace: "kube-system"}, &api.Container{Id: "6", Pid: own}, false, ""},
		{"with a runtime handler", &api.PodSandbox{Id: "handler", RuntimeHandler: "vfix"}, &api.Container{Id: "7", Pid: own}, false, ""},
		{"with the hook", shop, &api.Container{Id: "8", Pid: own, Hooks: hook("/hook/vfix-runtime")}, false, ""},
		{"with another hook", shop, &api.Container{Id: "9", Pid: own, Hooks: hook("/other/vfix-runtime")}, true, ""},
		{"has ended", shop, &api.Container{Id: "10", State: api.ContainerState_CONTAINER_STOPPED}, false, ""},
		{"has just ended", shop, &api.Container{Id: "11", Name: "c", Pid: 1 << 30}, false, "shop/cart/c: not examined: no such file or directory"},
		{"with an unknown process", shop, &api.Container{Id: "12", Name: "c", State: api.ContainerState_CONTAINER_RUNNING}, false,
			"shop/cart/c: not examined: no process is in a control group of the container"},
	} {
		*lines, c.c.PodSandboxId = nil, c.pod.Id
		if _, err := a.Synchronize(context.Background(), []*api.PodSandbox{c.pod}, []*api.Container{c.c}); err != nil {
			t.Error(err)
		}
		if got := strings.Join(*lines, "\n"); len(a.queue) == 1 != c.queued || got != c.log {
			t.Errorf("%s: queued %v, %q", c.what, len(a.queue) == 1, got)
		}
		for len(a.queue) > 0 {
			next := <-a.queue
			if path, err := os.Readlink(fmt.Sprint("/proc/self/fd/", next.root)); err != nil || path != "/" || next.pod != "cart" {
				t.Errorf("%s: got the root %s of pod %q, %v", c.what, path, next.pod, err)
			}
			unix.Close(next.root)
		}
	}

	// One for which the queue has no room is queued with a later container.
	for n, want := range []bool{true, false, true, true} {
		if n == 2 {
			unix.Close((<-a.queue).root)
		}
		id := []string{"20", "21", "21", "21"}[n]
		if err := a.StartContainer(context.Background(), shop, &api.Container{Id: id, Pid: own}); err != nil {
			t.Error(err)
		}
		if got := a.seen["container\n"+id]; got != want {
			t.Errorf("start %d: got %v, want %v", n, got, want)
		}
	}
	unix.Close((<-a.queue).root)
	for n := range maxSeen + 2 - len(a.seen) {
		if len(a.seen) < maxSeen-1 {
			a.seen[fmt.Sprint(n)] = true
			continue
		}
		a.add(shop, &api.Container{Id: fmt.Sprint(n), Pid: own})
		if len(a.queue) > 0 {
			unix.Close((<-a.queue).root)
		}
	}
	if len(a.seen) != maxSeen {
		t.Errorf("got %d images that are remembered, want %d", len(a.seen), maxSeen)
	}
}

func TestAuditReports(t *testing.T) {
	o, lines := printed()
	a := &auditor{Options: o}
	for _, c := range []struct {
		image, handler string
		large          int
		want           string
	}{
		{"a", "", 0, "a: no calls to the vsyscall page (ns/pod/c)"},
		{"summary", "", 0, "summary: 1 image examined, none calls the vsyscall page"},
		{"", "kata", 0, "image without a name: no calls to the vsyscall page; " +
			"in a virtual machine (kata): only a rebuilt image or its kernel parameters help (ns/pod/c)"},
		{"a", "", 1, "a: no calls to the vsyscall page; 1 file not examined: /0 (ns/pod/c)"},
		{"a", "", 3, "a: no calls to the vsyscall page; 3 files not examined: /0, /1, /2 (ns/pod/c)"},
		{"a", "", 5, "a: no calls to the vsyscall page; 5 files not examined: /0, /1, /2 and 2 more (ns/pod/c)"},
		{"a", "", -1, "a: not examined: root: bad file descriptor (ns/pod/c)"},
	} {
		*lines = nil
		if c.image == "summary" {
			a.summary()
		} else {
			a.look(audited{subject{namespace: "ns", pod: "pod", container: "c", handler: c.handler, images: strings.Fields(c.image)}, imageOf(t, c.large)})
		}
		if got := strings.Join(*lines, "\n"); got != c.want {
			t.Errorf("got  %s\nwant %s", got, c.want)
		}
	}

	// The confined process examines the files.
	root := t.TempDir()
	if err := os.WriteFile(filepath.Join(root, "clock"), tinyelf.Bytes(0), 0o755); err != nil {
		t.Fatal(err)
	}
	*lines = nil
	a.look(audited{subject{namespace: "ns", pod: "pod", container: "c", images: []string{"old"}}, opened(t, root)})
	if got, want := strings.Join(*lines, "\n"), "old: would be patched: 1 file with 1 call site: /clock (ns/pod/c)"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	a.rebuild, *lines = []string{"b", "a", "b"}, nil
	a.summary()
	if got := strings.Join(*lines, "\n"); got != "summary: 7 images examined, 2 images would be patched; rebuild them: a b" {
		t.Errorf("got %s", got)
	}
}

// imageOf opens a root filesystem with a number of files that are too large to examine, or returns a bad descriptor
// for -1.
func imageOf(t *testing.T, large int) int {
	t.Helper()
	if large < 0 {
		return -1
	}
	dir := t.TempDir()
	for n := range large {
		path := filepath.Join(dir, fmt.Sprint(n))
		err := os.WriteFile(path, tinyelf.Bytes(0), 0o755)
		if err == nil {
			err = os.Truncate(path, 1<<30) // of holes
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return opened(t, dir)
}

// opened is a descriptor of a directory, as the audit has one of a root filesystem.
func opened(t *testing.T, dir string) int {
	t.Helper()
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	return fd
}

// Images in the queue are examined, and the end prints a summary.
func TestAuditEnds(t *testing.T) {
	lines := make(chan string, 9)
	a := newAuditor(Options{Result: func(format string, args ...any) { lines <- fmt.Sprintf(format, args...) }})
	a.queue <- audited{subject{images: []string{"a"}}, imageOf(t, 0)}
	if got := <-lines; !strings.HasPrefix(got, "a: no calls") {
		t.Errorf("got %s", got)
	}
	a.end()
	if len(lines) != 1 || <-lines != "summary: 1 image examined, none calls the vsyscall page" {
		t.Errorf("got another summary, or %d more", len(lines))
	}
}
