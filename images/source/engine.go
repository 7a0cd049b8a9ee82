// Images and containers of an engine: it saves an image to open it, and loads one to write it.

package source

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"
	"github.com/moby/moby/client/pkg/versions"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"vfix.dev/vfix/images/blob"
	"vfix.dev/vfix/internal/hinterr"
)

// inEngine calls f with what look finds in the first engine that has it, or returns missing; what names it in errors.
func inEngine[T any](ctx context.Context, r Ref, what string, missing error, o Options, look func(*Engine) (T, error), f func(*Engine, T) error) error {
	found := false
	err := EachEngine(ctx, r, o, func(e *Engine) (bool, error) {
		got, err := look(e)
		if errdefs.IsNotFound(err) {
			return false, nil
		}
		if found = true; err == nil {
			err = f(e, got)
		}
		if err != nil {
			err = fmt.Errorf("docker daemon %s: %s: %w", e.Host, what, err)
		}
		return true, err
	})
	if err == nil && !found {
		return missing
	}
	return err
}

// openEngine opens an image in the first engine that has it.
func openEngine(ctx context.Context, ref Ref, o Options) (src *Source, err error) {
	look := func(e *Engine) (client.ImageInspectResult, error) { return e.ImageInspect(ctx, ref.Name) }
	missing := hinterr.With(hinterr.Errorf(hinterr.ErrNotFound, "docker daemon: no image %s", ref.Name),
		"docker pull %s, or take it from its registry: docker://%s", ref.Name, ref.Name)
	err = inEngine(ctx, ref, ref.Name, missing, o, look, func(e *Engine, found client.ImageInspectResult) (err error) {
		ref.Host = e.Host
		src, err = saved(ctx, e, ref, found, o)
		return err
	})
	return src, err
}

// savePlatformAPI is the first API version whose save takes a platform (docker 28.0, API version history).
const savePlatformAPI = "1.48"

// saved makes the engine save an image, once, to a temporary file that is read as the docker archive that it is.
func saved(ctx context.Context, e *Engine, ref Ref, found client.ImageInspectResult, o Options) (*Source, error) {
	var opts []client.ImageSaveOption
	if versions.GreaterThanOrEqualTo(e.ClientVersion(), savePlatformAPI) {
		opts = append(opts, client.ImageSaveWithPlatforms(ocispec.Platform{OS: o.Platform.OS, Architecture: o.Platform.Architecture, Variant: o.Platform.Variant}))
	}
	stream, err := e.ImageSave(ctx, []string{found.ID}, opts...)
	if err != nil {
		return nil, err
	}
	defer stream.Close()
	t := &archive{name: ref.Name, entries: map[string]tarEntry{}}
	in := &blob.CountingReader{R: stream}
	err = t.keep(ctx, in, found.Size, o, nil)
	if in.Err != nil {
		err = in.Err // the archive is damaged for that reason
	}
	if err != nil {
		t.Close()
		return nil, err
	}
	src, err := fromArchive(ctx, t, Ref{Transport: DockerArchive}, o)
	if err != nil {
		return nil, err
	}
	src.Ref, src.Digest = ref, digestOf(ref.Name, found)
	return src, nil
}

// digestOf is the digest under which the image was pulled from the repository that it is named after, else its ID.
func digestOf(typed string, found client.ImageInspectResult) string {
	n, err := name.ParseReference(typed)
	if err != nil {
		return found.ID
	}
	for _, rd := range found.RepoDigests {
		if d, err := name.NewDigest(rd); err == nil && d.Context().Name() == n.Context().Name() {
			return d.DigestStr()
		}
	}
	return found.ID
}

// putEngine loads a result's image into an engine under the name dest. The reference that it returns is NAME:TAG: an
// image that was loaded has no digest to be run by.
func putEngine(ctx context.Context, dest Ref, r Result, o Options) (out Stored, err error) {
	tag, err := fullTag(dest.Name)
	if err != nil {
		return out, err
	}
	err = EachEngine(ctx, dest, o, func(e *Engine) (bool, error) {
		id, err := load(ctx, e, tag, r, o)
		if err != nil {
			return true, fmt.Errorf("docker daemon %s: %s: %w", e.Host, tag, err)
		}
		out = Stored{Reference: tag, Digest: id}
		return true, nil
	})
	return out, err
}

// load streams an image into an engine, which checks its layers, and returns the ID that it has there.
func load(ctx context.Context, e *Engine, tag string, r Result, o Options) (string, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	err := blob.Piped(func(w io.Writer) error {
		_, err := writeDockerTar(ctx, w, tag, r, o)
		return err
	}, func(tar io.Reader) error {
		resp, err := e.ImageLoad(ctx, tar, client.ImageLoadWithQuiet(true))
		if err != nil {
			return err
		}
		defer resp.Close()
		return loadAnswer(resp)
	})
	if err != nil {
		return "", err
	}
	found, err := e.ImageInspect(ctx, tag)
	return found.ID, err
}

// loadAnswer reads the engine's stream of messages: it also reports a failed load, after the status 200.
func loadAnswer(r io.Reader) error {
	dec := json.NewDecoder(r)
	for {
		var m struct {
			Error string `json:"error"`
		}
		switch err := dec.Decode(&m); {
		case err == io.EOF:
			return nil
		case err != nil:
			return fmt.Errorf("answer to the load: %w", err)
		case m.Error != "":
			return errors.New(strings.TrimSpace(m.Error))
		}
	}
}

// Kind is "docker" or "podman".
func (e *Engine) Kind(ctx context.Context) (string, error) {
	v, err := e.ServerVersion(ctx, client.ServerVersionOptions{})
	for _, part := range v.Components {
		if strings.HasPrefix(part.Name, "Podman") {
			return "podman", err
		}
	}
	return "docker", err
}

// Container is an engine's report of a container.
type Container struct {
	container.InspectResponse
	Finished time.Time // zero if it has not ended
	// Kernel is the version of the kernel that the engine's containers run on; "" if the engine does not say it, or is
	// not on this machine.
	Kernel string
}

// InContainer calls f with a container, by name or ID, and the first engine that has it. It errs with ErrNotFound if
// none of them has it, and with ErrNoDaemon if none answers.
func InContainer(ctx context.Context, name string, o Options, f func(*Engine, container.InspectResponse) error) error {
	o = o.WithDefaults()
	look := func(e *Engine) (container.InspectResponse, error) {
		got, err := e.ContainerInspect(ctx, name, client.ContainerInspectOptions{})
		return got.Container, err
	}
	missing := hinterr.With(hinterr.Errorf(hinterr.ErrNotFound, "no container %s", name), "'docker ps -a' lists them")
	return inEngine(ctx, Ref{}, "container "+name, missing, o, look, f)
}

// FindContainer looks for a container as InContainer does.
func FindContainer(ctx context.Context, name string, o Options) (found *Container, err error) {
	err = InContainer(ctx, name, o, func(e *Engine, got container.InspectResponse) error {
		if got.State == nil || got.Config == nil || got.HostConfig == nil {
			return hinterr.Damaged("the engine reports no state")
		}
		found = &Container{InspectResponse: got}
		// A missing time, or the year 1, means that it has not ended.
		found.Finished, _ = time.Parse(time.RFC3339Nano, got.State.FinishedAt)
		if strings.HasPrefix(e.Host, "unix://") {
			if i, err := e.Info(ctx, client.InfoOptions{}); err == nil {
				found.Kernel = i.Info.KernelVersion
			}
		}
		return nil
	})
	return found, err
}
