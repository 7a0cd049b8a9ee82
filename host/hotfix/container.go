// The hotfix of a container: its files are examined, and it is recreated if that is
// possible.

package hotfix

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"vfix.dev/vfix/host/store"
	"vfix.dev/vfix/images"
	"vfix.dev/vfix/images/contents"
	"vfix.dev/vfix/images/engine"
	"vfix.dev/vfix/images/mountopts"
	"vfix.dev/vfix/internal/hinterr"
)

// managers are labels of containers that something else starts and replaces.
var managers = []struct{ label, who, hint string }{
	{"io.kubernetes.pod.name", "Kubernetes", "add the output of 'vfix hotfix --for kubernetes' to the pod's specification"},
	{"com.docker.swarm.task.id", "a swarm", "add the mounts to the service: docker service update --mount-add"},
}

func (h *hotfix) container(ctx context.Context, c *engine.Client, old *engine.Container) error {
	h.out.Container, h.out.Name = true, strings.TrimPrefix(old.Name, "/")
	h.out.Running = old.Busy()
	if old.Config == nil || old.HostConfig == nil {
		return hinterr.Damaged("the engine's answer has no configuration")
	}
	h.out.Image = old.Config.Image
	h.out.Service = old.Config.Labels["com.docker.compose.service"]
	h.out.Service = cmp.Or(h.out.Service, serviceName(old.Config.Image))
	e, err := c.Traits(ctx)
	if err != nil {
		return err
	}
	if old.HostConfig.UsernsMode == "host" {
		e.ShiftUID, e.ShiftGID = 0, 0
	}
	if h.o.Apply {
		if err := mayRecreate(h.out, old, e); err != nil {
			return err
		}
	}
	// Its file system is the image's layers with its own on top, without the mounts.
	f, err := images.ExamineContainer(ctx, h.s, c, old.ID, images.ContainerPrefix+h.out.Name)
	if err != nil {
		return err
	}
	h.out.Findings = f.Findings
	h.out.Covered = coveredBy(old, h.o.Dir)
	if err := h.keep(ctx, f.ToPatch(), places(f.Tree, h.out.Covered), e); err != nil {
		return err
	}
	if !h.o.Apply || sameMounts(old, h.out.Mounts) {
		return nil
	}
	r := &recreation{c: c, old: old, mounts: h.out.Mounts, dir: h.o.Dir, P: h.s.Progress}
	h.out.Recreated, err = r.run(ctx)
	return err
}

// mayRecreate says why a container cannot be recreated.
func mayRecreate(out *Hotfixed, old *engine.Container, e engine.Traits) error {
	for _, m := range managers {
		if old.Config.Labels[m.label] != "" {
			return hinterr.With(hinterr.Errorf(hinterr.ErrUnsupported, "%s made it and would replace it", m.who), "%s", m.hint)
		}
	}
	switch {
	case e.Name != "docker":
		return hinterr.With(hinterr.Errorf(hinterr.ErrUnsupported, "it belongs to %s: vfix recreates only docker containers", e.Name),
			"vfix hotfix --for %s %s prints the options to recreate it with", e.Name, out.Name)
	case e.Remote != "":
		return hinterr.With(hinterr.Errorf(hinterr.ErrUnsupported, "its engine is at %s, and the patched copies would be here", e.Remote),
			"run vfix hotfix there")
	case out.Running && old.HostConfig.AutoRemove:
		return hinterr.With(fmt.Errorf("it is running, and is removed when it stops (--rm)"),
			"start a new one with the options that 'vfix hotfix %s' prints", out.Name)
	case out.Running:
		return hinterr.With(fmt.Errorf("it is running"), "docker stop %s && vfix hotfix --apply %s && docker start %s", out.Name, out.Name, out.Name)
	}
	return nil
}

// coveredBy lists where a container has mounts of its own, sorted: all but those of an
// earlier hotfix.
func coveredBy(old *engine.Container, dir string) (all []string) {
	for _, m := range old.Mounts {
		if m.Type != engine.Bind || !isKept(m.Source, dir) {
			all = append(all, filepath.ToSlash(filepath.Clean(m.Destination)))
		}
	}
	for target := range old.HostConfig.Tmpfs {
		all = append(all, filepath.ToSlash(filepath.Clean(target)))
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// places are where an engine makes mounts: it follows the symlinks that are in their paths. In what another mount brings,
// they are not known.
func places(t *contents.Tree, covered []string) (all []string) {
	for _, at := range covered {
		real, err := t.Resolve(at)
		inMount := slices.ContainsFunc(covered, func(c string) bool { return strings.HasPrefix(at, c+"/") })
		if err == nil && !inMount {
			at = "/" + real
		}
		all = append(all, at)
	}
	return all
}

// isKept reports whether a path is that of a patched copy in the directory dir, or in the one
// which is their default place.
func isKept(path, dir string) bool {
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real
	}
	key := filepath.Base(path)
	return copyName().MatchString(key) && (path == store.At(dir).Path(key) || path == store.At(HotfixDir).Path(key))
}

// sameMounts reports whether a container has the mounts already, or none are needed.
func sameMounts(old *engine.Container, want []mountopts.Mount) bool {
	for _, w := range want {
		if !slices.ContainsFunc(old.Mounts, func(m engine.Mount) bool {
			return m.Type == engine.Bind && m.Source == w.Source && m.Destination == w.Target
		}) {
			return false
		}
	}
	return true
}
