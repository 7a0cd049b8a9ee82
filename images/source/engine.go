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
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"
	"github.com/moby/moby/client/pkg/versions"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"vfix.dev/vfix/images/blob"
	"vfix.dev/vfix/internal/hinterr"
)

// openEngine opens an image in the first engine that has it.
func openEngine(ctx context.Context, ref Ref, o Options) (*Source, error) {
	for e, err := range Engines(ctx, ref.Host, o) {
		if err != nil {
			return nil, err
		}
		found, err := e.ImageInspect(ctx, ref.Name)
		if errdefs.IsNotFound(err) {
			continue
		}
		var src *Source
		if err == nil {
			src, err = saved(ctx, e, ref, found, o)
		}
		return src, e.about(ref.Name, err)
	}
	return nil, hinterr.With(hinterr.Errorf(hinterr.ErrNotFound, "docker daemon: no image %s", ref.Name),
		"docker pull %s, or take it from its registry: docker://%s", ref.Name, ref.Name)
}

// about names the engine and what an error is about.
func (e *Engine) about(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("docker daemon %s: %s: %w", e.Host, what, err)
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
	err = t.keep(ctx, in, found.Size, o)
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
	src.Ref, src.Digest = ref, found.ID
	src.Ref.Host = e.Host
	return src, nil
}

// putEngine loads a result's image into an engine under the name dest. The reference that it returns is NAME:TAG: an
// image that was loaded has no digest to be run by.
func putEngine(ctx context.Context, dest Ref, r Result, o Options) (Stored, error) {
	tag, err := fullTag(dest.Name)
	if err != nil {
		return Stored{}, err
	}
	e, err := firstEngine(ctx, dest.Host, o)
	if err != nil {
		return Stored{}, err
	}
	id, err := load(ctx, e, tag, r, o)
	return Stored{Reference: tag, Digest: id}, e.about(tag, err)
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
		var m struct {
			Error string `json:"error"` // a failed load has the status 200 as well
		}
		for dec := json.NewDecoder(resp); m.Error == ""; {
			if err := dec.Decode(&m); err == io.EOF {
				return nil
			} else if err != nil {
				return err
			}
		}
		return errors.New(m.Error)
	})
	if err != nil {
		return "", err
	}
	found, err := e.ImageInspect(ctx, tag)
	return found.ID, err
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
	container.InspectResponse // with a State, a Config and a HostConfig
	Engine                    *Engine
	Finished                  time.Time // zero if it has not ended
	// Kernel is the version of the kernel that the engine's containers run on; "" if the engine does not say it, or is
	// not on this machine.
	Kernel string
}

// FindContainer looks for a container, by name or ID. It errs with ErrNotFound if no engine has it, and with ErrNoDaemon
// if none answers.
func FindContainer(ctx context.Context, name string, o Options) (*Container, error) {
	for e, err := range Engines(ctx, "", o.WithDefaults()) {
		if err != nil {
			return nil, err
		}
		got, err := e.ContainerInspect(ctx, name, client.ContainerInspectOptions{})
		if errdefs.IsNotFound(err) {
			continue
		}
		c := &Container{InspectResponse: got.Container, Engine: e}
		if err == nil && (c.State == nil || c.Config == nil || c.HostConfig == nil) {
			err = hinterr.Damaged("the engine reports no state")
		}
		if err != nil {
			return nil, e.about("container "+name, err)
		}
		// A missing time, or the year 1, means that it has not ended.
		c.Finished, _ = time.Parse(time.RFC3339Nano, c.State.FinishedAt)
		if strings.HasPrefix(e.Host, unixPrefix) {
			if i, err := e.Info(ctx, client.InfoOptions{}); err == nil {
				c.Kernel = i.Info.KernelVersion
			}
		}
		return c, nil
	}
	return nil, hinterr.With(hinterr.Errorf(hinterr.ErrNotFound, "no container %s", name), "'docker ps -a' lists them")
}
