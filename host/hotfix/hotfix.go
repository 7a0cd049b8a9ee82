// Package hotfix writes the patched files of a container that does not run into its own writable layer, through the
// engine's archive call. Its image is not changed, and the container keeps everything else.
package hotfix

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"vfix.dev/vfix/images"
	"vfix.dev/vfix/images/contents"
	"vfix.dev/vfix/images/source"
	"vfix.dev/vfix/internal/addedfiles"
	"vfix.dev/vfix/internal/hinterr"
)

// Options are the choices of vfix hotfix.
type Options struct {
	images.ScanOptions
	Start bool // start the container afterwards
}

// Hotfixed is what a hotfix did.
type Hotfixed struct {
	Findings *contents.Findings `json:"-"`
	Name     string             `json:"name"`
	Engine   string             `json:"engine"`  // docker or podman
	Written  []string           `json:"written"` // absolute names in the container, sorted
	// Covered are the container's mounts (volumes, directories of the host, tmpfs), sorted. They are not examined, and
	// nothing is written into them.
	Covered []string `json:"covered_by"`
	Started bool     `json:"started"`
}

// Hotfix patches the files of a container, given by its name or ID.
func Hotfix(ctx context.Context, typed string, o Options) (*Hotfixed, error) {
	name := strings.TrimPrefix(typed, images.ContainerPrefix)
	if err := checkName(name); err != nil {
		return nil, err
	}
	o.Media = o.Media.WithDefaults()
	c, err := source.FindContainer(ctx, name, o.Media)
	if errors.Is(err, hinterr.ErrNotFound) {
		err = hinterr.With(err, "'docker ps --all' lists containers; for an image: %s", rebuild(name))
	}
	if err != nil {
		return nil, err
	}
	h, err := hotfix(ctx, c, o)
	if err != nil {
		return h, fmt.Errorf("container %s: %w", name, err)
	}
	return h, nil
}

// checkName refuses what is not the name of a container (docker, daemon/names).
func checkName(name string) error {
	if _, pod, ok := strings.Cut(strings.Replace(name, "pod:", "pod/", 1), "pod/"); ok {
		return hinterr.With(hinterr.Errorf(hinterr.ErrUnsupported, "pod %s: Kubernetes makes its containers again from the image", pod), "%s", forPods)
	}
	if !regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9_.-]*$`).MatchString(name) {
		return hinterr.With(hinterr.Errorf(hinterr.ErrUnsupported, "%s: not the name of a container", name), "for an image: %s", rebuild(name))
	}
	return nil
}

// rebuild is the command that patches an image under the same name.
func rebuild(image string) string { return fmt.Sprintf("vfix rebuild -t %s %s", image, image) }

const forPods = "rebuild its image: vfix rebuild docker://IMAGE -o docker://NEW-IMAGE, then kubectl set image; " +
	"or patch the pods of its node when they start: see 'vfix help nodes'"

func hotfix(ctx context.Context, c *source.Container, o Options) (*Hotfixed, error) {
	kind, err := c.Engine.Kind(ctx)
	if err != nil {
		return nil, err
	}
	h := &Hotfixed{Name: strings.TrimPrefix(c.Name, "/"), Engine: kind}
	if err := h.check(c.InspectResponse); err != nil {
		return nil, err
	}
	s := contents.NewSession(o.Jobs, o.Media.Progress, o.Rewriter)
	defer s.Close()
	// Its file system is the image's layers with its own on top, without the mounts.
	f, err := images.ExamineContainer(ctx, s, c)
	if err != nil {
		return nil, err
	}
	h.Findings = f
	h.Covered = covered(c.InspectResponse)
	if err := h.write(ctx, c, f); err != nil {
		return nil, err
	}
	if o.Start {
		if _, err := c.Engine.ContainerStart(ctx, c.ID, client.ContainerStartOptions{}); err != nil {
			return nil, fmt.Errorf("start: %w", err)
		}
		h.Started = true
	}
	return h, nil
}

// check says why a container cannot be patched, and what to do instead. One that crashes and is started again and again
// can be.
func (h *Hotfixed) check(found container.InspectResponse) error {
	running := (found.State.Running || found.State.Paused) && !found.State.Restarting
	switch {
	case found.Config.Labels["io.kubernetes.pod.name"] != "":
		return hinterr.With(hinterr.Errorf(hinterr.ErrUnsupported, "it belongs to a pod: Kubernetes makes it again from the image"), "%s", forPods)
	case found.HostConfig.ReadonlyRootfs:
		return hinterr.With(hinterr.Errorf(hinterr.ErrUnsupported, "its root file system is read-only"),
			"%s, then create the container again; or see 'vfix install --help'", rebuild(found.Config.Image))
	case running && found.HostConfig.AutoRemove:
		return hinterr.With(errors.New("it is running, and is removed when it stops (--rm)"), "%s, then run it again", rebuild(found.Config.Image))
	case running:
		return hinterr.With(errors.New("it is running"), "%s stop %s && vfix hotfix --start %s", h.Engine, h.Name, h.Name)
	}
	return nil
}

// write sends the patched files to the engine, as the layer that a rebuild would add, less what a mount covers. The layer
// is complete before: an archive that is cut off would leave a file cut off.
func (h *Hotfixed) write(ctx context.Context, c *source.Container, f *contents.Findings) error {
	hidden := places(f.Tree, h.Covered)
	var targets []contents.File
	extras := map[string]contents.Extra{} // the files that fixed programs read
	for _, t := range f.ToPatch() {
		if t.Names = visible(t.Names, hidden); len(t.Names) == 0 {
			continue
		}
		targets = append(targets, t)
		h.Written = append(h.Written, t.Names...)
		if t.Plan.Redirected() {
			fix := t.Plan.Redirect.Fix
			file := addedfiles.FixOf(fix).File
			if len(visible([]string{file.Name}, hidden)) == 0 {
				return hinterr.With(fmt.Errorf("%s: /%s: a mount covers it", fix, file.Name), "omit --fix, or remove that mount")
			}
			extras[file.Name] = contents.Extra{Name: file.Name, Mode: addedfiles.Mode, Body: file.Body}
		}
	}
	if len(targets) == 0 {
		return nil
	}
	h.Written = append(h.Written, slices.Collect(maps.Keys(extras))...)
	for i := range h.Written {
		h.Written[i] = "/" + h.Written[i]
	}
	slices.Sort(h.Written)
	layer, err := contents.NewLayer(ctx, f.Tree, targets, slices.Collect(maps.Values(extras)))
	if err != nil {
		return err
	}
	defer layer.Close()
	archive, err := layer.Uncompressed()
	if err != nil {
		return err
	}
	if _, err := c.Engine.CopyToContainer(ctx, c.ID, client.CopyToContainerOptions{DestinationPath: "/", Content: archive}); err != nil {
		return fmt.Errorf("its files may be incomplete: %w", err)
	}
	return nil
}

// covered lists where a container has mounts, sorted.
func covered(found container.InspectResponse) (all []string) {
	for _, m := range found.Mounts {
		all = append(all, path.Clean(m.Destination))
	}
	for target := range found.HostConfig.Tmpfs {
		all = append(all, path.Clean(target))
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// places are where an engine makes mounts: it follows the symlinks in their paths.
func places(t *contents.Tree, mounts []string) (all []string) {
	for _, at := range mounts {
		if real, err := t.Resolve(at); err == nil {
			at = "/" + real
		}
		all = append(all, at)
	}
	return all
}

// visible are the names that no mount covers.
func visible(names, mounts []string) (all []string) {
	for _, name := range names {
		hides := func(m string) bool { return m == "/" || strings.HasPrefix("/"+name+"/", m+"/") }
		if !slices.ContainsFunc(mounts, hides) {
			all = append(all, name)
		}
	}
	return all
}
