// The connection to the engine, and its requests.

package plugin

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/containerd/nri/pkg/api"
	"github.com/containerd/nri/pkg/stub"

	"vfix.dev/vfix/host/ociruntime"
	"vfix.dev/vfix/host/policy"
)

// What the engine calls the plugin: 50-vfix. Plugins that add devices and mounts usually have lower numbers.
const (
	pluginName  = "vfix"
	pluginIndex = "50"
)

// retry is how long is waited for an engine that restarts.
const retry = 2 * time.Second

// reread is how often the configuration is read between two containers.
var reread = 10 * time.Second

// errPolicy ends a connection that was registered with another policy.
var errPolicy = errors.New("fail_closed is another")

// Run is the plugin until the context ends. It returns an error only where it cannot begin: an engine that is
// not there, or restarts, is waited for.
func Run(ctx context.Context, o Options) error {
	var serving any
	if o.Audit {
		a := newAuditor(o)
		defer a.end()
		serving = a
	} else {
		h := &hooker{Options: o, pending: map[string]*hookedContainer{}, advised: map[string]bool{}, firstWait: firstWait}
		if err := h.ready(); err != nil {
			return err
		}
		if _, err := h.policy(); err != nil {
			return err
		}
		serving = h
	}
	said := ""
	for {
		err := connect(ctx, o, serving)
		if ctx.Err() != nil {
			return nil
		}
		if errors.Is(err, errPolicy) {
			continue
		}
		if text := fmt.Sprint(err); text != said {
			said = text
			o.Log("%s: %v; retrying until the engine answers", o.Socket, err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(retry):
		}
	}
}

// connect serves one connection. Its error is why that ended.
func connect(ctx context.Context, o Options, serving any) error {
	lost := make(chan struct{})
	var once sync.Once
	options := []stub.Option{
		stub.WithPluginName(pluginName), stub.WithPluginIdx(pluginIndex), stub.WithSocketPath(o.Socket),
		stub.WithLogger(quiet{o.Log}), stub.WithOnClose(func() { once.Do(func() { close(lost) }) }),
	}
	closed := func() bool { return false }
	if h, ok := serving.(*hooker); ok {
		closed = func() bool {
			p, _ := h.policy()
			return p.FailClosed
		}
	}
	registered := closed()
	if registered {
		// An engine that knows of it (NRI 0.12.4) creates no container without an answer of ours.
		options = append(options, stub.WithFailurePolicy(&api.FailurePolicy{FailRequest: true}))
	}
	s, err := stub.New(serving, options...)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	again := time.NewTicker(reread)
	defer again.Stop()
	for {
		select {
		case err = <-ended:
			if err == nil {
				err = errors.New("connection closed")
			}
			return err
		case <-lost: // also before it was registered, where Run would wait forever
			return errors.New("connection lost")
		case <-again.C:
			if closed() != registered {
				stop(errPolicy)
			}
		case <-ctx.Done():
			select {
			case <-ended:
			case <-time.After(retry):
			}
			return context.Cause(ctx)
		}
	}
}

// hooker adds the hook.
type hooker struct {
	Options
	mu        sync.Mutex
	engine    string                      // what it calls itself
	pending   map[string]*hookedContainer // by ID
	firstWait time.Duration               // constant
	advised   map[string]bool             // images for Kata that were named
	config    policy.Config               // the last that was in force
	why       string                      // and what was wrong with the file
	written   bool                        // the program, by this process
}

// ready sees to it that the program is where the hook says.
func (h *hooker) ready() error {
	path := filepath.Join(h.Dir, programName)
	if fi, err := os.Stat(path); err == nil && fi.Size() == int64(len(h.Hook)) && h.written {
		return nil
	}
	if err := onNode(h.Dir); err != nil {
		return err
	}
	h.written = true
	return install(h.Dir, h.Hook)
}

// policy finds what is in force, for the configuration may have changed, and hands it on to the hook.
func (h *hooker) policy() (policy.InForce, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	p := policy.Load(h.Config, false, h.Dir)
	if why := p.Why(); why != h.why {
		if h.why = why; why != "" {
			h.Log("%s", why)
		} else {
			h.Log("%s: in force again", h.Config)
		}
	}
	h.config = p.Config
	return p, errors.Join(p.Keep(), handOn(p.Config, h.Dir))
}

// Configure is called once for each connection.
func (h *hooker) Configure(_ context.Context, _, runtime, version string) (api.EventMask, error) {
	h.mu.Lock()
	h.engine, h.pending = runtime, map[string]*hookedContainer{}
	h.mu.Unlock()
	h.Log("connected to %s %s: selected containers get the hook %s", runtime, version, filepath.Join(h.Dir, programName))
	return 0, nil
}

// CreateContainer is asked for each container of a pod.
func (h *hooker) CreateContainer(_ context.Context, pod *api.PodSandbox, c *api.Container) (*api.ContainerAdjustment, []*api.ContainerUpdate, error) {
	h.mu.Lock()
	s := subjectOf(h.engine, pod, c)
	h.mu.Unlock()
	err := h.ready()
	p, perr := h.policy()
	if err = errors.Join(err, perr); err != nil {
		if p.FailClosed {
			return nil, nil, fmt.Errorf("vfix: container not created (fail-closed): %w", err)
		}
		h.Log("%s: starts unpatched: %v", s, err)
		return nil, nil, nil
	}
	if patched(s, c) { // by this plugin's successor, in an upgrade
		return nil, nil, nil
	}
	switch decide(h.Selection, p.Config, s) {
	case hooked:
	case optedOut:
		h.Log("%s: not patched: annotation %s=false", s, policy.AnnotationEnable)
		return nil, nil, nil
	case virtually:
		h.adviseKata(s)
		return nil, nil, nil
	default:
		return nil, nil, nil
	}
	h.added(c.GetId(), s)
	a := &api.ContainerAdjustment{}
	a.AddHooks(&api.Hooks{CreateRuntime: []*api.Hook{{
		Path: filepath.Join(h.Dir, programName),
		Args: []string{programName, "--vfix-config", filepath.Join(h.Dir, configName), "--policy-source", string(p.Source), ociruntime.HookCommand},
		// It ends by itself before that; an engine that had to kill it would not start the container.
		Timeout: api.Int(int(p.HookTimeout().Seconds())),
	}}})
	// containerd hands on only those annotations of a pod that its configuration names.
	for name, value := range s.annotations {
		if _, has := c.GetAnnotations()[name]; !has && strings.HasPrefix(name, policy.AnnotationPrefix) {
			a.AddAnnotation(name, value)
		}
	}
	return a, nil, nil
}

// maxAdvised bounds the images that are remembered.
const maxAdvised = 10000

// adviseKata says once an image what reaches the guest of a virtual machine.
func (h *hooker) adviseKata(s subject) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.advised[s.image()] || len(h.advised) >= maxAdvised {
		return
	}
	h.advised[s.image()] = true
	h.Log("%s: not patched: the handler %s starts it in a virtual machine, with a kernel of its own that no hook reaches. "+
		"If the image is legacy, use 'vfix rebuild %s', or the pod annotation %s: vsyscall=emulate", s, s.handler, s.image(), kataKernel)
}

// kataKernel is Kata's annotation for kernel parameters, which its configuration must permit (enable_annotations).
const kataKernel = "io.katacontainers.config.hypervisor.kernel_params"

// quiet is the library's errors.
type quiet struct {
	log func(string, ...any)
}

func (quiet) Debugf(context.Context, string, ...any) {}
func (quiet) Infof(context.Context, string, ...any)  {}
func (quiet) Warnf(context.Context, string, ...any)  {}
func (q quiet) Errorf(_ context.Context, format string, args ...any) {
	q.log("NRI: "+format, args...)
}
