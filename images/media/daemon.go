// Images in a daemon: the daemon saves an image to open it, and loads one to write it.

package media

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"

	"vfix.dev/vfix/images/blob"
	"vfix.dev/vfix/images/engine"
	"vfix.dev/vfix/internal/hinterr"
)

// inDaemon calls f with what look finds in the first daemon that has it; what names it in errors.
func inDaemon[T any](ctx context.Context, only, what string, o Options, look func(*engine.Client) (T, error), f func(*engine.Client, T) error) (found bool, err error) {
	err = EachDaemon(ctx, only, o, func(c *engine.Client) (bool, error) {
		got, err := look(c)
		if engine.NotFound(err) {
			return false, nil
		}
		if found = true; err == nil {
			err = f(c, got)
		}
		if err != nil {
			err = fmt.Errorf("docker daemon %s: %s: %w", c.Host, what, err)
		}
		return true, err
	})
	return found, err
}

// imageIn is inDaemon for an image by its name or ID.
func imageIn(ctx context.Context, only, name string, o Options, f func(*engine.Client, engine.Image) error) (bool, error) {
	return inDaemon(ctx, only, name, o, func(c *engine.Client) (engine.Image, error) { return c.Image(ctx, name) }, f)
}

// OpenDaemon opens an image in the first daemon that has it.
func OpenDaemon(ctx context.Context, ref Ref, o Options) (src *Source, err error) {
	found, err := imageIn(ctx, ref.Where(), ref.Name, o, func(c *engine.Client, found engine.Image) (err error) {
		ref.Host = c.Host
		src, err = saved(ctx, c, ref, found, o)
		return err
	})
	if err == nil && !found {
		err = hinterr.With(hinterr.Errorf(hinterr.ErrNotFound, "docker daemon: no image %s", ref.Name),
			"docker pull %s, or take it from its registry: docker://%s", ref.Name, ref.Name)
	}
	return src, err
}

// DaemonID is the ID of the image that a daemon has under a name, "" if none has it.
func DaemonID(ctx context.Context, name string, o Options) (id string, err error) {
	_, err = imageIn(ctx, "", name, o, func(_ *engine.Client, found engine.Image) error {
		id = found.ID
		return nil
	})
	return id, err
}

// saved makes the daemon save an image, once, to a temporary file that is read as the docker
// archive it is: memory does not grow with the image. The engine keeps layers uncompressed,
// and they stay so; one with containerd's store keeps them as they were pulled.
func saved(ctx context.Context, c *engine.Client, ref Ref, found engine.Image, o Options) (*Source, error) {
	stream, err := c.Save(ctx, found.ID, engine.Platform{OS: o.Platform.OS, Architecture: o.Platform.Architecture, Variant: o.Platform.Variant})
	if err != nil {
		return nil, err
	}
	defer stream.Close()
	t := &tarFile{name: ref.Name, entries: map[string]tarEntry{}}
	in := &blob.CountingReader{R: stream}
	err = t.keep(ctx, in, found.Size, o, nil)
	if in.Err != nil {
		err = in.Err // what that makes of the archive does not matter
	}
	var src *Source
	if err == nil {
		t.name = ref.String()
		src, err = dockerImage(ctx, t, Ref{}, o)
	}
	if err != nil {
		t.Close()
		return nil, err
	}
	src.AtEnd(t.Close)
	src.Ref, src.Digest = ref, daemonDigest(ref.Name, found)
	return src, nil
}

// daemonDigest is the digest under which the image was pulled from the repository that it
// is named after, else the image ID.
func daemonDigest(typed string, found engine.Image) string {
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

// PutDaemon loads a result's image into a daemon under the name dest. The reference it
// returns is NAME:TAG: an image that was loaded has no digest to be run by.
func PutDaemon(ctx context.Context, dest Ref, r Result, o Options) (Stored, error) {
	tag, err := fullTag(dest.Name)
	if err != nil {
		return Stored{}, err
	}
	if r.Index != nil {
		o.Progress.Note("a daemon is given one platform: the others are left out")
	}
	var out Stored
	err = EachDaemon(ctx, dest.Where(), o, func(c *engine.Client) (bool, error) {
		id, err := load(ctx, c, tag, r.Image, o)
		if err != nil {
			return true, fmt.Errorf("docker daemon %s: %s: %w", c.Host, tag, err)
		}
		out = Stored{Reference: tag, Digest: id}
		return true, nil
	})
	if err == nil && r.Statement != nil {
		err = r.Statement.Note(out)
	}
	return out, err
}

// load streams an image into a daemon and returns the ID it has there.
func load(ctx context.Context, c *engine.Client, tag string, img v1.Image, o Options) (string, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	err := blob.Piped(func(w io.Writer) error {
		_, err := writeDockerTar(ctx, w, tag, img, o)
		return err
	}, func(r io.Reader) error {
		resp, err := c.Load(ctx, r)
		if err != nil {
			return err
		}
		defer resp.Close()
		return loadAnswer(resp)
	})
	if err != nil {
		return "", err
	}
	return checkLoaded(ctx, c, tag, img)
}

// loadAnswer reads the daemon's stream of messages: it also reports a failed load,
// after the status 200.
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

// checkLoaded looks the image up under its new name and compares its layers with those
// that were sent.
func checkLoaded(ctx context.Context, c *engine.Client, tag string, img v1.Image) (string, error) {
	found, err := c.Image(ctx, tag)
	if err != nil {
		return "", err
	}
	cf, err := img.ConfigFile()
	if err != nil {
		return "", err
	}
	want := make([]string, len(cf.RootFS.DiffIDs))
	for n, h := range cf.RootFS.DiffIDs {
		want[n] = h.String()
	}
	if !slices.Equal(found.RootFS.Layers, want) {
		return "", hinterr.Damaged("loaded image: got layers %v, want %v", found.RootFS.Layers, want)
	}
	return found.ID, nil
}
