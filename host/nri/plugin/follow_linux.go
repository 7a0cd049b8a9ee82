// The outcome of containers that got the hook.

package plugin

import (
	"context"
	"time"

	"github.com/containerd/nri/pkg/api"

	"vfix.dev/vfix/host/starts"
)

// hookedContainer is a container that is still starting.
type hookedContainer struct {
	subject
	created bool // the engine accepted the request
}

// The first wait for an engine to create a container, which usually takes less than a second; each further
// wait is twice as long. By the last one, an engine has given up on its runtime: CRI-O and the kubelet wait 4
// minutes.
const (
	firstWait = time.Second
	waits     = 8
)

// added remembers a container that gets the hook.
func (h *hooker) added(id string, s subject) {
	h.mu.Lock()
	defer h.mu.Unlock()
	c := &hookedContainer{subject: s}
	h.pending[id] = c
	go h.await(id, c)
}

// await detects a container that is never created: CRI-O does not report containers to plugins that a validator or
// the hook refused.
func (h *hooker) await(id string, c *hookedContainer) {
	wait := h.firstWait
	for n := range waits {
		time.Sleep(wait)
		wait *= 2
		h.mu.Lock()
		config, over := h.config, h.pending[id] != c || c.created
		h.mu.Unlock()
		if over {
			return
		}
		if r, _ := starts.Find(config.RecordFile(), id); r != nil && r.Outcome == starts.Refused || n == waits-1 {
			h.ended(id, false)
			return
		}
	}
}

// PostCreateContainer reports that the engine accepted the request.
func (h *hooker) PostCreateContainer(_ context.Context, _ *api.PodSandbox, c *api.Container) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if p := h.pending[c.GetId()]; p != nil {
		p.created = true
	}
	return nil
}

// StartContainer is called when the hook has run, before the container's program does.
func (h *hooker) StartContainer(_ context.Context, _ *api.PodSandbox, c *api.Container) error {
	h.ended(c.GetId(), true)
	return nil
}

// RemoveContainer reports containers that never started.
func (h *hooker) RemoveContainer(_ context.Context, _ *api.PodSandbox, c *api.Container) error {
	h.ended(c.GetId(), false)
	return nil
}

func (h *hooker) ended(id string, created bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if c := h.pending[id]; c != nil {
		delete(h.pending, id)
		c.created = c.created || created
		go h.report(id, c)
	}
}

// report logs what the hook has done, from its record: a runtime discards what a hook prints. containerd runs hooks
// when it starts a container, and CRI-O when it creates one.
func (h *hooker) report(id string, c *hookedContainer) {
	h.mu.Lock()
	config := h.config
	h.mu.Unlock()
	r, err := starts.Find(config.RecordFile(), id)
	switch {
	case r == nil && !c.created:
		h.Log("%s: the engine did not create the container with the hook. If its error is 'attempted restricted OCI hook injection', "+
			"this node's NRI validator forbids hooks (reject_oci_hook_adjustment): stop this plugin here and use the RuntimeClass vfix, see 'vfix help kubernetes'", c)
	case err != nil:
		h.Log("%s: started; %v", c, err)
	case r == nil:
		h.Log("%s: the hook left no record in %s", c, config.RecordFile())
	case r.Outcome == starts.Patched:
		h.Log("%s: patched %d files in %.3f s", c, len(r.Files), r.Seconds.Total)
	case r.Outcome != starts.Clean:
		h.Log("%s: %s: %s", c, r.Outcome, r.Why())
	}
}
