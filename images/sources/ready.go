// The checks of a DEST: before an image is read for it, and whether the written image still exists.

package sources

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"vfix.dev/vfix/images/atomicfile"
	"vfix.dev/vfix/images/engine"
	"vfix.dev/vfix/images/media"
	"vfix.dev/vfix/internal/hinterr"
)

// Ready returns what prevents an image from being written to a DEST: an engine that does not answer, no program
// that writes a squashfs, no directory for the file. It leaves nothing behind.
func Ready(ctx context.Context, dest media.Ref, o media.Options) error {
	dest, err := media.ResolveDest(dest)
	if err != nil {
		return err
	}
	switch dest.Transport {
	case media.Daemon:
		return media.EachDaemon(ctx, dest.Where(), o.WithDefaults(), func(*engine.Client) (bool, error) { return true, nil })
	case media.SIF:
		if _, err := squashWriter(ctx); err != nil {
			return fmt.Errorf("%s: %w", dest.Name, err)
		}
	case media.DockerArchive, media.OCIArchive:
	default:
		return nil
	}
	// The next run removes the file if this one is killed here.
	f, err := atomicfile.CreateNamed(dest.Name, atomicfile.HeldName)
	if err != nil {
		return fmt.Errorf("%s: %w", dest.Name, err)
	}
	f.Discard()
	return nil
}

// Holds reports whether dest has an image with that digest, in the sense of media.Stored, with one HEAD request
// for a registry. It returns an error if it cannot determine this; a missing image is not an error.
func Holds(ctx context.Context, dest, digest string, o media.Options) (bool, error) {
	o = o.WithDefaults()
	ref, err := media.ParseRef(dest)
	if err != nil {
		return false, err
	}
	if ref, err = media.ResolveDest(ref); err != nil {
		return false, nil // a result is never written there
	}
	var has string
	switch ref.Transport {
	case media.Registry:
		has, err = media.RegistryDigest(ctx, ref, o)
	case media.Daemon:
		has, err = media.DaemonID(ctx, ref.Name, o)
	default:
		var src *media.Source
		if src, err = Open(ctx, ref.String(), o); err == nil {
			has, err = src.Digest, src.Close()
		}
	}
	// Docker Hub and others answer "no access" for a removed repository.
	if errors.Is(err, hinterr.ErrNotFound) || errors.Is(err, hinterr.ErrUnauthorized) || errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil && has == digest, err
}
