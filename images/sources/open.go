// Opening any SOURCE and writing any DEST.

package sources

import (
	"cmp"
	"context"

	"vfix.dev/vfix/images/media"
	"vfix.dev/vfix/internal/progress"
)

// Open resolves and opens a SOURCE. A name without a prefix is a path where one exists
// (recognised by content), else an image in the local daemon, else one in its registry; "-" is stdin.
// The caller must Close what it returns.
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
	switch ref.Transport {
	case media.Daemon:
		return media.OpenDaemon(ctx, ref, o)
	case media.Registry:
		return media.OpenRegistry(ctx, ref, o)
	case media.DockerArchive:
		return media.OpenDockerArchive(ctx, ref, o)
	case media.OCILayout:
		return media.OpenLayout(ctx, ref, o)
	case media.OCIArchive:
		return media.OpenOCIArchive(ctx, ref, o)
	case media.SIF:
		return openSIF(ctx, ref, o)
	}
	return openFolder(ctx, ref, o)
}

// Put writes a result under dest, whole or not at all. It returns the reference that names it,
// with the digest where the medium has digests, and the digest alone. That may differ from that of
// r.Image: an OCI layout gets OCI media types, and layers that a daemon or docker archive
// held uncompressed are compressed for a registry and for OCI.
func Put(ctx context.Context, dest media.Ref, r media.Result, o media.Options) (media.Stored, error) {
	o = o.WithDefaults()
	dest, err := media.ResolveDest(dest)
	if err != nil {
		return media.Stored{}, err
	}
	media.NoteDropped(r.Index, o.Progress)
	switch dest.Transport {
	case media.Daemon:
		return media.PutDaemon(ctx, dest, r, o)
	case media.Registry:
		return media.PutRegistry(ctx, dest, r, o)
	case media.DockerArchive:
		return media.PutDockerArchive(ctx, dest, r, o)
	case media.OCILayout:
		return media.PutLayout(ctx, dest, r, o)
	case media.SIF:
		return putSIF(ctx, dest, r, o)
	case media.Dir:
		return putRoot(ctx, dest, r, o)
	}
	return media.PutOCIArchive(ctx, dest, r, o)
}
