// The connection to the engine, and its requests.

package nri

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/containerd/nri/pkg/api"
	"github.com/containerd/nri/pkg/stub"

	"vfix.dev/vfix/host/node"
)

// The engine's name for the plugin: 50-vfix. Plugins that add devices and mounts usually have lower numbers.
const (
	pluginName  = "vfix"
	pluginIndex = "50"
)

// retry is the interval between attempts to reach an engine that restarts. It creates containers without the plugin until
// then.
const retry = 200 * time.Millisecond

// Serve writes the program of the hook where the engine finds it, and runs the plugin until the context ends. It waits
// for an engine that is missing or restarts.
func Serve(ctx context.Context, o Options, hook []byte) error {
	if err := o.writeHook(hook); err != nil {
		return err
	}
	h := &hooker{Options: o, added: map[string]string{}}
	said := ""
	for {
		err := h.connect(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if text := fmt.Sprint(err); text != said {
			said = text
			o.Log("%s: %v; retrying until the engine answers: check --socket, and that NRI is enabled in it", o.Socket, err)
		}
		time.Sleep(retry)
	}
}

// connect holds a connection until it is lost, and returns the reason.
func (h *hooker) connect(ctx context.Context) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	s, err := stub.New(h,
		stub.WithPluginName(pluginName), stub.WithPluginIdx(pluginIndex), stub.WithSocketPath(h.Socket),
		stub.WithLogger(quiet{h.Log}),
		stub.WithOnClose(func() { stop(errors.New("connection lost")) })) // also before it was registered, where Run would wait forever
	if err != nil {
		return err
	}
	go func() { stop(errors.Join(s.Run(ctx), errors.New("connection closed"))) }()
	<-ctx.Done()
	return context.Cause(ctx)
}

// hooker answers the requests of the engine.
type hooker struct {
	Options
	mu     sync.Mutex
	engine string            // what it calls itself
	added  map[string]string // IDs of containers with the hook that the engine has not created yet, by pod and name
}

// Configure is called once for each connection.
func (h *hooker) Configure(_ context.Context, _, runtime, version string) (api.EventMask, error) {
	h.mu.Lock()
	h.engine = runtime
	h.mu.Unlock()
	h.Log("connected to %s %s: selected containers get the hook %s", runtime, version, h.Hook())
	return 0, nil
}

// CreateContainer is called for each container of a pod.
func (h *hooker) CreateContainer(_ context.Context, pod *api.PodSandbox, c *api.Container) (*api.ContainerAdjustment, []*api.ContainerUpdate, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := subjectOf(h.engine, pod, c)
	switch {
	case !selects(h.Selection, s), h.hooked(c):
		return nil, nil, nil
	case isKata(s.handler):
		h.Log("%s: not patched: the handler %s starts it in a virtual machine, with a kernel of its own that no hook reaches. "+
			"If the image is legacy, use 'vfix rebuild %s', or the pod annotation %s: vsyscall=emulate", s, s.handler, s.image(), kataKernel)
		return nil, nil, nil
	case s.annotations[node.AnnotationEnable] == "false":
		h.Log("%s: not patched: annotation %s=false", s, node.AnnotationEnable)
		return nil, nil, nil
	}
	_, err := os.Stat(h.Hook())
	key := pod.GetUid() + "/" + s.container
	if h.added[key] != "" { // an unpatched container is better than none
		delete(h.added, key)
		err = errors.New("the engine has just refused it with the hook. If its error was 'attempted restricted OCI hook injection', " +
			"this node's NRI validator forbids hooks (reject_oci_hook_adjustment)")
	}
	if err != nil {
		h.Log("%s: starts unpatched: %v", s, err)
		return nil, nil, nil
	}
	a := &api.ContainerAdjustment{}
	a.AddHooks(&api.Hooks{CreateRuntime: []*api.Hook{{
		Path: h.Hook(), Args: []string{HookName, node.HookVerb}, Timeout: api.Int(hookSeconds),
	}}})
	// containerd passes on only those annotations of a pod that its configuration names.
	for name, value := range s.annotations {
		if _, has := c.GetAnnotations()[name]; !has && strings.HasPrefix(name, node.AnnotationPrefix) {
			a.AddAnnotation(name, value)
		}
	}
	h.added[key] = c.GetId()
	h.Log("%s: hook added", s)
	return a, nil, nil
}

// PostCreateContainer reports that the engine has accepted the request.
func (h *hooker) PostCreateContainer(_ context.Context, _ *api.PodSandbox, c *api.Container) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	maps.DeleteFunc(h.added, func(_, id string) bool { return id == c.GetId() })
	return nil
}

// hooked reports whether a container has the hook already: during an upgrade two plugins run.
func (h *hooker) hooked(c *api.Container) bool {
	return slices.ContainsFunc(c.GetHooks().GetCreateRuntime(), func(k *api.Hook) bool { return k.GetPath() == h.Hook() })
}

// hookSeconds is longer than the hook works: an engine that had to end it would not start the container.
const hookSeconds = 30

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
