// Package hotfix writes the patched files of a container that does not run into its own writable layer, through the
// engine's archive call. Its image is not changed, and the container keeps everything else.
package hotfix

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"vfix.dev/vfix/images"
	"vfix.dev/vfix/images/contents"
	"vfix.dev/vfix/images/source"
	"vfix.dev/vfix/internal/addedfiles"
	"vfix.dev/vfix/internal/hinterr"
	"vfix.dev/vfix/rewriter/find"
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
	var h *Hotfixed
	err := source.InContainer(ctx, name, o.Media, func(c *source.Engine, found container.InspectResponse) (err error) {
		h, err = hotfix(ctx, c, found, o)
		return err
	})
	if errors.Is(err, hinterr.ErrNotFound) && h == nil {
		err = hinterr.With(err, "'docker ps --all' lists containers; for an image: %s", rebuild(name))
	}
	return h, err
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

func hotfix(ctx context.Context, c *source.Engine, found container.InspectResponse, o Options) (*Hotfixed, error) {
	if found.Config == nil || found.HostConfig == nil || found.State == nil {
		return nil, hinterr.Damaged("the engine's answer has no configuration")
	}
	kind, err := c.Kind(ctx)
	if err != nil {
		return nil, err
	}
	h := &Hotfixed{Name: strings.TrimPrefix(found.Name, "/"), Engine: kind}
	if found, err = awaitCrash(ctx, c, found); err != nil {
		return nil, err
	}
	if err := h.check(found); err != nil {
		return nil, err
	}
	s := contents.NewSession(o.Jobs, o.Media.Progress, o.Rewriter)
	defer s.Close()
	// Its file system is the image's layers with its own on top, without the mounts.
	f, err := images.ExamineContainer(ctx, s, c, found.ID, images.ContainerPrefix+h.Name)
	if err != nil {
		return nil, err
	}
	h.Findings = f.Findings
	if err := h.write(ctx, c, found, f); err != nil {
		return nil, err
	}
	if o.Start {
		if _, err := c.ContainerStart(ctx, found.ID, client.ContainerStartOptions{}); err != nil {
			return nil, fmt.Errorf("start: %w", err)
		}
		h.Started = true
	}
	return h, nil
}

// Limits of awaitCrash: how long a container that crashes again and again may run in between.
const (
	crashPatience = 5 * time.Second
	crashPause    = 50 * time.Millisecond
)

// awaitCrash returns the state of a container that its engine has started again after a crash, and that runs for the
// moment, when it has crashed again; or its state after crashPatience.
func awaitCrash(ctx context.Context, c *source.Engine, found container.InspectResponse) (container.InspectResponse, error) {
	for end := time.Now().Add(crashPatience); found.State.Running && !found.State.Restarting && found.RestartCount > 0; {
		if time.Now().After(end) {
			break
		}
		time.Sleep(crashPause)
		got, err := c.ContainerInspect(ctx, found.ID, client.ContainerInspectOptions{})
		if err != nil {
			return found, err
		}
		found = got.Container
	}
	return found, nil
}

// check says why a container cannot be patched, and what to do instead. One that crashes and is started again and again
// can be.
func (h *Hotfixed) check(found container.InspectResponse) error {
	switch state := found.State; {
	case found.Config.Labels["io.kubernetes.pod.name"] != "":
		return hinterr.With(hinterr.Errorf(hinterr.ErrUnsupported, "it belongs to a pod: Kubernetes makes it again from the image"), "%s", forPods)
	case found.Config.Labels["com.docker.swarm.task.id"] != "":
		return hinterr.With(hinterr.Errorf(hinterr.ErrUnsupported, "it belongs to a swarm, which makes it again from the image"), "%s", rebuild(found.Config.Image))
	case found.HostConfig.ReadonlyRootfs:
		return hinterr.With(hinterr.Errorf(hinterr.ErrUnsupported, "its root file system is read-only"),
			"%s, then create the container again; or see 'vfix install --help'", rebuild(found.Config.Image))
	case (state.Running || state.Paused) && !state.Restarting && found.HostConfig.AutoRemove:
		return hinterr.With(errors.New("it is running, and is removed when it stops (--rm)"), "%s, then run it again", rebuild(found.Config.Image))
	case (state.Running || state.Paused) && !state.Restarting:
		return hinterr.With(errors.New("it is running"), "%s stop %s && vfix hotfix --start %s", h.Engine, h.Name, h.Name)
	}
	return nil
}

// write sends the patched files to the engine, all in one archive that is complete before: what is cut off would leave
// a file cut off.
func (h *Hotfixed) write(ctx context.Context, c *source.Engine, found container.InspectResponse, f *contents.Scanned) error {
	h.Covered = covered(found)
	hidden := places(f.Tree, h.Covered)
	archive, err := os.CreateTemp("", ".vfix-*")
	if err != nil {
		return err
	}
	defer os.Remove(archive.Name())
	defer archive.Close()
	w := tar.NewWriter(archive)
	var applied []find.Fix
	for _, file := range f.ToPatch() {
		names := visible(file.Names, hidden)
		if len(names) == 0 {
			continue
		}
		if err := add(w, names, file.Meta.Unmarked(), file.Plan.Size, file.Plan.Apply(file.ELF.Content)); err != nil {
			return err
		}
		h.Written = append(h.Written, names...)
		if d := file.Plan.Redirect; file.Plan.Redirected() && !slices.Contains(applied, d.Fix) {
			applied = append(applied, d.Fix)
		}
	}
	for _, fix := range applied {
		file := addedfiles.FixOf(fix).File
		names := visible([]string{file.Name}, hidden)
		if len(names) == 0 {
			return hinterr.With(fmt.Errorf("%s: /%s: a mount covers it", fix, file.Name), "omit --fix, or remove that mount")
		}
		meta := &contents.Meta{Mode: addedfiles.Mode, Mtime: time.Unix(0, 0)}
		if err := add(w, names, meta, int64(len(file.Body)), strings.NewReader(string(file.Body))); err != nil {
			return err
		}
		h.Written = append(h.Written, names...)
	}
	if len(h.Written) == 0 {
		return nil
	}
	slices.Sort(h.Written)
	if err := w.Close(); err != nil {
		return err
	}
	if _, err := archive.Seek(0, io.SeekStart); err != nil {
		return err
	}
	if _, err := c.CopyToContainer(ctx, found.ID, client.CopyToContainerOptions{DestinationPath: "/", Content: archive}); err != nil {
		return fmt.Errorf("its files may be incomplete: %w", err)
	}
	return nil
}

// add writes a file to an archive, under its first name, and the other names as links to it. Their headers have the same
// metadata: docker applies them to the file.
func add(w *tar.Writer, names []string, meta *contents.Meta, size int64, content io.Reader) error {
	head := &tar.Header{
		Typeflag: tar.TypeReg, Name: names[0][1:], Size: size, Mode: int64(meta.Mode), Uid: int(meta.UID), Gid: int(meta.GID),
		ModTime: meta.Mtime, Format: tar.FormatPAX, PAXRecords: map[string]string{},
	}
	for name, value := range meta.Xattrs {
		head.PAXRecords["SCHILY.xattr."+name] = value
	}
	if err := w.WriteHeader(head); err != nil {
		return err
	}
	if _, err := io.Copy(w, content); err != nil {
		return err
	}
	for _, name := range names[1:] {
		link := *head
		link.Typeflag, link.Name, link.Linkname, link.Size = tar.TypeLink, name[1:], head.Name, 0
		if err := w.WriteHeader(&link); err != nil {
			return err
		}
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

// visible are the absolute names that no mount covers.
func visible(names, mounts []string) (all []string) {
	for _, name := range names {
		name = "/" + name
		hides := func(m string) bool { return name == m || m == "/" || strings.HasPrefix(name, m+"/") }
		if !slices.ContainsFunc(mounts, hides) {
			all = append(all, name)
		}
	}
	return all
}
