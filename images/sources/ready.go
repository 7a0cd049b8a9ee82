// The checks of a DEST: before an image is read for it, and whether it still holds what was written there.

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

// Ready reports what keeps an image from being written to a DEST: no engine that answers, no program that writes a
// squashfs, no directory for the file. Nothing is written.
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
	// Under a name that the next run removes if this one is killed here.
	f, err := atomicfile.CreateNamed(dest.Name, atomicfile.HeldName)
	if err != nil {
		return fmt.Errorf("%s: %w", dest.Name, err)
	}
	f.Discard()
	return nil
}

// Holds reports whether dest has an image of that digest, in the sense of media.Stored. A registry is
// asked with one HEAD. It errs if that cannot be found out; a missing image is not an error.
func Holds(ctx context.Context, dest, digest string, o media.Options) (bool, error) {
	o = o.WithDefaults()
	ref, err := media.ParseRef(dest)
	if err != nil {
		return false, err
	}
	if ref, err = media.ResolveDest(ref); err != nil {
		return false, nil // nothing is written to such a place
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
	// Docker Hub and others answer "no access" where a repository is gone.
	if errors.Is(err, hinterr.ErrNotFound) || errors.Is(err, hinterr.ErrUnauthorized) || errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil && has == digest, err
}
