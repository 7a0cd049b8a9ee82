// The audit: which images call the vsyscall page. It adds nothing to any container. The root filesystem of a
// container's first process is opened before its program starts, and examined afterwards, one image at a time.

package plugin

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/containerd/nri/pkg/api"
	"golang.org/x/sys/unix"

	"vfix.dev/vfix/host/ociruntime"
	"vfix.dev/vfix/host/policy"
)

type auditor struct {
	Options
	mu     sync.Mutex
	engine string          // name, as the engine reports it
	seen   map[string]bool // images
	queue  chan audited
	done   chan struct{} // closed when no image is examined any more
	stop   chan struct{}

	// The findings, for the summary.
	images  int
	rebuild []string
}

// audited is an image that waits to be examined.
type audited struct {
	subject
	root int // descriptor of a container's root filesystem
}

const (
	// maxWaiting is how many images wait, each with a descriptor. Those beyond it are examined with a later
	// container.
	maxWaiting = 256
	// maxSeen is the number of images that are remembered.
	maxSeen = 100000
	// auditSeconds is the time limit for one image: no start waits for it.
	auditSeconds = 900
	// summaryEvery is how often a summary is printed.
	summaryEvery = 24 * time.Hour
)

func newAuditor(o Options) *auditor {
	a := &auditor{
		Options: o, seen: map[string]bool{}, queue: make(chan audited, maxWaiting),
		done: make(chan struct{}), stop: make(chan struct{}),
	}
	go a.work()
	return a
}

// Configure is called once for each connection.
func (a *auditor) Configure(_ context.Context, _, runtime, version string) (api.EventMask, error) {
	a.mu.Lock()
	a.engine = runtime
	a.mu.Unlock()
	a.Log("connected to %s %s: images of selected containers are examined, no container is changed", runtime, version)
	return 0, nil
}

// Synchronize gets the existing containers.
func (a *auditor) Synchronize(_ context.Context, pods []*api.PodSandbox, containers []*api.Container) ([]*api.ContainerUpdate, error) {
	byID := map[string]*api.PodSandbox{}
	for _, p := range pods {
		byID[p.GetId()] = p
	}
	for _, c := range containers {
		a.add(byID[c.GetPodSandboxId()], c)
	}
	return nil, nil
}

// StartContainer is called when the root filesystem is in place, before the container's program starts: this also
// covers a program that exits at once.
func (a *auditor) StartContainer(_ context.Context, pod *api.PodSandbox, c *api.Container) error {
	a.add(pod, c)
	return nil
}

// add queues an image that was not seen before.
func (a *auditor) add(pod *api.PodSandbox, c *api.Container) {
	a.mu.Lock()
	defer a.mu.Unlock()
	s := subjectOf(a.engine, pod, c)
	key := s.image() + "\n" + s.imageID
	if s.image() == "" {
		key = "container\n" + c.GetId()
	}
	if patched(a.Options, s, c) || a.seen[key] || len(a.seen) >= maxSeen || !selects(a.Selection, s) {
		return
	}
	pid, err := processOf("/proc", c)
	if pid == 0 && err == nil {
		return
	}
	root := -1
	if err == nil {
		root, err = unix.Open(fmt.Sprintf("/proc/%d/root", pid), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	}
	if err != nil {
		a.Log("%s: not examined: %v", s, err)
		return
	}
	select {
	case a.queue <- audited{s, root}:
		a.seen[key] = true
	default:
		unix.Close(root)
	}
}

// patched reports whether vfix has patched the container: then its files differ from those of its image.
func patched(o Options, s subject, c *api.Container) bool {
	return s.handler == wrapped || slices.ContainsFunc(c.GetHooks().GetCreateRuntime(), func(h *api.Hook) bool {
		return h.GetPath() == filepath.Join(o.Dir, programName)
	})
}

func (a *auditor) work() {
	defer close(a.done)
	day := time.NewTicker(summaryEvery)
	defer day.Stop()
	for {
		select {
		case <-a.stop:
			return
		case <-day.C:
			a.summary()
		case next := <-a.queue:
			a.look(next)
		}
	}
}

// look prints one line about an image.
func (a *auditor) look(s audited) {
	found, err := ociruntime.Inspect(s.root, policy.Limits{Seconds: auditSeconds})
	a.images++
	name := cmp.Or(s.image(), "image without a name")
	where := s.namespace + "/" + s.pod + "/" + s.container
	var text string
	switch {
	case err != nil:
		a.Result("%s: not examined: %v (%s)", name, err, where)
		return
	case len(found.Files) > 0:
		a.rebuild = append(a.rebuild, name)
		text = fmt.Sprintf("would be patched: %s with %s: %s", count(len(found.Files), "file"), count(found.Sites, "call site"), few(found.Files))
		if found.Left > 0 {
			text += "; " + count(found.Left, "call site") + " would remain, for the fallback"
		}
	default:
		text = "no calls to the vsyscall page"
	}
	if len(found.Unread) > 0 {
		text += "; " + count(len(found.Unread), "file") + " not examined: " + few(found.Unread)
	}
	if isKata(s.handler) {
		text += "; in a virtual machine (" + s.handler + "): only a rebuilt image or its kernel parameters help"
	}
	a.Result("%s: %s (%s)", name, text, where)
}

func (a *auditor) summary() {
	text := count(a.images, "image") + " examined"
	if len(a.rebuild) == 0 {
		a.Result("summary: %s, none calls the vsyscall page", text)
		return
	}
	slices.Sort(a.rebuild)
	a.rebuild = slices.Compact(a.rebuild)
	a.Result("summary: %s, %s would be patched; rebuild them: %s", text, count(len(a.rebuild), "image"), strings.Join(a.rebuild, " "))
}

// end stops the work and prints the last summary.
func (a *auditor) end() {
	close(a.stop)
	const patience = 2 * time.Second
	select {
	case <-a.done:
		a.summary()
	case <-time.After(patience): // in the middle of an image
	}
}

func count(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}

// few lists the first names.
func few(all []string) string {
	const most = 3
	text := strings.Join(all[:min(len(all), most)], ", ")
	if len(all) > most {
		text += fmt.Sprintf(" and %d more", len(all)-most)
	}
	return text
}

// processOf returns the ID of a process of a container, 0 if it does not run. CRI-O before 1.36 does not report it
// (cri-o, internal/nri/container.go): there, processOf searches for the name of its control group.
func processOf(proc string, c *api.Container) (int, error) {
	if pid := c.GetPid(); pid != 0 {
		return int(pid), nil
	}
	if s := c.GetState(); s != api.ContainerState_CONTAINER_CREATED && s != api.ContainerState_CONTAINER_RUNNING || c.GetId() == "" {
		return 0, nil
	}
	files, err := filepath.Glob(filepath.Join(proc, "[0-9]*", "cgroup"))
	if err != nil {
		return 0, err
	}
	for _, file := range files {
		groups, err := os.ReadFile(file)
		if err != nil || !inGroupOf(string(groups), c.GetId()) {
			continue // the process has ended, or another has its ID
		}
		return strconv.Atoi(filepath.Base(filepath.Dir(file)))
	}
	return 0, fmt.Errorf("no process is in a control group of the container")
}

// inGroupOf reports whether the text of /proc/PID/cgroup names a container's group, or one below it: CRI-O's
// crio-ID, or crio-ID.scope with systemd. Its monitor is in crio-conmon-ID.
func inGroupOf(groups, id string) bool {
	for line := range strings.Lines(groups) {
		for name := range strings.SplitSeq(strings.TrimSpace(line), "/") {
			if strings.TrimSuffix(name, ".scope") == "crio-"+id {
				return true
			}
		}
	}
	return false
}
