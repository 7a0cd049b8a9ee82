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

// The engine's name for the plugin: 50-vfix. Plugins that add devices and mounts usually have lower numbers.
const (
	pluginName  = "vfix"
	pluginIndex = "50"
)

// retry is the interval between attempts to reach an engine that restarts.
const retry = 2 * time.Second

// reread is the interval at which the configuration is read again.
var reread = 10 * time.Second

// Run runs the plugin until the context ends. It returns an error only if it cannot begin: it waits for an
// engine that is missing or restarts.
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
		begun := time.Now()
		err := serve(ctx, o, serving)
		if ctx.Err() != nil {
			return nil
		}
		if h, ok := serving.(*hooker); ok {
			h.forget()
		}
		if text := fmt.Sprint(err); text != said {
			said = text
			o.Log("%s: %v; retrying until the engine answers", o.Socket, err)
		}
		if time.Since(begun) > retry {
			continue // at once: until then containers are created without the plugin
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(retry):
		}
	}
}

// serve holds a connection until it is lost, and returns the reason. Whether the engine may create a
// container without an answer is registered once for each connection, so another policy needs another
// connection. Both stay open until the engine calls the new one, so that no container is created without a
// call in between.
func serve(ctx context.Context, o Options, serving any) error {
	strict := func() bool { return false }
	if h, ok := serving.(*hooker); ok {
		strict = func() bool {
			p, _ := h.policy()
			return p.FailClosed
		}
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	now, err := connect(ctx, o, serving, strict())
	if err != nil {
		return err
	}
	defer func() { now.end() }()
	next := &connection{} // of nil channels: none
	defer func() { next.end() }()
	again := time.NewTicker(reread)
	defer again.Stop()
	for {
		select {
		case err := <-now.ended:
			if next.stop == nil {
				return err
			}
			now, next = next, &connection{}
		case <-next.ended:
			next = &connection{}
		case <-next.called:
			now.end()
			now, next = next, &connection{}
			o.Log("registered again: fail_closed is %v", now.strict)
		case <-again.C:
			want := strict()
			if next.stop != nil && next.strict != want {
				next.end()
				next = &connection{}
			}
			if next.stop == nil && now.strict != want {
				if c, err := connect(ctx, o, serving, want); err == nil {
					next = c
				} // else again at the next tick
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

type connection struct {
	strict bool
	stop   func()
	called chan struct{} // gets one when the engine has called about a container
	ended  chan error    // gets one: the reason why it was lost
}

// connect begins a connection. Its results are sent to its channels.
func connect(ctx context.Context, o Options, serving any, strict bool) (*connection, error) {
	c := &connection{strict: strict, called: make(chan struct{}, 1), ended: make(chan error, 3)}
	if h, ok := serving.(*hooker); ok {
		serving = &called{h, c.called}
	}
	s, err := stub.New(serving,
		stub.WithPluginName(pluginName), stub.WithPluginIdx(pluginIndex), stub.WithSocketPath(o.Socket),
		stub.WithLogger(quiet{o.Log}),
		stub.WithOnClose(func() { c.ends(errors.New("connection lost")) }), // also before it was registered, where Run would wait forever
		// An engine that supports this (NRI 0.12.4) creates no container without our answer if the policy is
		// strict, and keeps asking after a late answer.
		stub.WithFailurePolicy(&api.FailurePolicy{FailRequest: strict, KeepConnected: true}))
	if err != nil {
		return nil, err
	}
	ctx, c.stop = context.WithCancel(ctx)
	go func() {
		err := s.Run(ctx)
		if err == nil {
			err = errors.New("connection closed")
		}
		c.ends(err)
	}()
	return c, nil
}

func (c *connection) ends(err error) {
	select {
	case c.ended <- err:
	default:
	}
}

// end ends a connection, and waits until it has ended.
func (c *connection) end() {
	if c.stop == nil {
		return
	}
	c.stop()
	select {
	case <-c.ended:
	case <-time.After(retry):
	}
}

// called is a hooker that detects when the engine calls it through a connection.
type called struct {
	*hooker
	by chan<- struct{}
}

// CreateContainer is the hooker's.
func (a *called) CreateContainer(ctx context.Context, pod *api.PodSandbox, c *api.Container) (*api.ContainerAdjustment, []*api.ContainerUpdate, error) {
	select {
	case a.by <- struct{}{}:
	default:
	}
	return a.hooker.CreateContainer(ctx, pod, c)
}

type hooker struct {
	Options
	mu        sync.Mutex
	engine    string                      // what it calls itself
	pending   map[string]*hookedContainer // by ID
	firstWait time.Duration               // constant
	advised   map[string]bool             // images for Kata that were reported
	config    policy.Config               // the last one in force
	why       string                      // and the error in the file
	written   bool                        // the program, by this process
}

// ready makes sure that the program is where the hook expects it.
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

// policy finds the configuration in force, because it may have changed, and passes it on to the hook.
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

// forget forgets the containers that are still starting: no engine will report what happened to them meanwhile.
func (h *hooker) forget() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.pending = map[string]*hookedContainer{}
}

// Configure is called once for each connection.
func (h *hooker) Configure(_ context.Context, _, runtime, version string) (api.EventMask, error) {
	h.mu.Lock()
	h.engine = runtime
	h.mu.Unlock()
	h.Log("connected to %s %s: selected containers get the hook %s", runtime, version, filepath.Join(h.Dir, programName))
	return 0, nil
}

// CreateContainer is called for each container of a pod.
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
	if patched(h.Options, s, c) { // by this plugin's successor, in an upgrade
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
	// containerd passes on only those annotations of a pod that its configuration names.
	for name, value := range s.annotations {
		if _, has := c.GetAnnotations()[name]; !has && strings.HasPrefix(name, policy.AnnotationPrefix) {
			a.AddAnnotation(name, value)
		}
	}
	return a, nil, nil
}

// maxAdvised bounds the images that are remembered.
const maxAdvised = 10000

// adviseKata says, once for each image, which fix works in a virtual machine.
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

// quiet receives the library's errors.
type quiet struct {
	log func(string, ...any)
}

func (quiet) Debugf(context.Context, string, ...any) {}
func (quiet) Infof(context.Context, string, ...any)  {}
func (quiet) Warnf(context.Context, string, ...any)  {}
func (q quiet) Errorf(_ context.Context, format string, args ...any) {
	q.log("NRI: "+format, args...)
}
