// Opens any SOURCE and writes any DEST.

package sources

import (
	"cmp"
	"context"
	"errors"

	"github.com/google/go-containerregistry/pkg/name"

	"vfix.dev/vfix/images/media"
	"vfix.dev/vfix/internal/hinterr"
	"vfix.dev/vfix/internal/progress"
)

// Open resolves and opens a SOURCE. A name without a prefix is a path if it exists (recognized by content), else
// an image in the local daemon, else one in its registry; "-" is stdin. The caller must Close the result.
func Open(ctx context.Context, source string, o media.Options) (*media.Source, error) {
	ref, err := media.ParseRef(source)
	if err != nil {
		return nil, err
	}
	o = o.WithDefaults()
	open := openRef
	if isStream(ref) {
		open = openStream
	}
	src, err := open(ctx, ref, o)
	if err == nil {
		progress.Debug(o.Progress, "%s: opened as %s %s", source, src.Ref, cmp.Or(src.Digest, src.Path))
	}
	return src, err
}

func openRef(ctx context.Context, ref media.Ref, o media.Options) (*media.Source, error) {
	if ref.Guessed {
		src, err := OpenPath(ctx, ref.Name, o)
		if src != nil || err != nil {
			return src, err
		}
		if media.LooksLikePath(ref.Name) {
			return nil, media.NoFile(ref.Name)
		}
		return openName(ctx, ref.Name, o)
	}
	return transports[ref.Transport].open(ctx, ref, o)
}

// transports are the formats and services of images.
var transports = map[media.Transport]struct {
	open func(context.Context, media.Ref, media.Options) (*media.Source, error)
	put  func(context.Context, media.Ref, media.Result, media.Options) (media.Stored, error)
}{
	media.Daemon:        {media.OpenDaemon, media.PutDaemon},
	media.Registry:      {media.OpenRegistry, media.PutRegistry},
	media.DockerArchive: {media.OpenArchive, media.PutArchive},
	media.OCIArchive:    {media.OpenArchive, media.PutArchive},
	media.OCILayout:     {media.OpenLayout, media.PutLayout},
	media.SIF:           {openSIF, putSIF},
	media.Dir:           {openDir, putRoot},
}

// Put writes a result to dest, completely or not at all. It returns the reference, with the digest if the medium
// has digests, and the digest itself. The digest may differ from that of r.Image: an OCI layout gets OCI media
// types, and uncompressed layers of a daemon or docker archive are compressed for a registry and for OCI.
func Put(ctx context.Context, dest media.Ref, r media.Result, o media.Options) (media.Stored, error) {
	o = o.WithDefaults()
	dest, err := media.ResolveDest(dest)
	if err != nil {
		return media.Stored{}, err
	}
	media.NoteDropped(r.Index, o.Progress)
	return transports[dest.Transport].put(ctx, dest, r, o)
}

// openName opens an image by its name alone: in the local daemon, else in its registry. It prints a message before
// it contacts the registry, and does not contact it for a name that is probably a file.
func openName(ctx context.Context, n string, o media.Options) (*media.Source, error) {
	ref, nameErr := name.ParseReference(n)
	if nameErr != nil {
		return nil, media.Mistyped(n)
	}
	src, daemonErr := media.OpenDaemon(ctx, media.Ref{Transport: media.Daemon, Name: n}, o)
	if daemonErr == nil {
		return src, nil
	}
	if ctx.Err() != nil || !errors.Is(daemonErr, hinterr.ErrNotFound) && !errors.Is(daemonErr, hinterr.ErrNoDaemon) {
		return nil, daemonErr
	}
	if err := media.Mistyped(n); err != nil {
		return nil, err
	}
	o.Progress.Note("%s: not a file here and not in a local engine: asking the registry %s", n, ref.Context().RegistryStr())
	src, err := media.OpenRegistry(ctx, media.Ref{Transport: media.Registry, Name: n}, o)
	if err == nil {
		return src, nil
	}
	if ctx.Err() != nil {
		return nil, err
	}
	// The daemon's hint is only for users who meant the daemon.
	if h, is := errors.AsType[hinterr.Hinted](daemonErr); is && errors.Is(daemonErr, hinterr.ErrNotFound) {
		daemonErr = errors.Unwrap(h)
	}
	return nil, &hinterr.Tried{Name: n, Places: []error{errors.New("files: none of that name"), daemonErr, err}}
}
