// What can be known of a DEST before an image is read for it.

package sources

import (
	"context"
	"fmt"

	"vfix.dev/vfix/images/atomicfile"
	"vfix.dev/vfix/images/engine"
	"vfix.dev/vfix/images/media"
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
	f, err := atomicfile.Create(dest.Name)
	if err != nil {
		return fmt.Errorf("%s: %w", dest.Name, err)
	}
	f.Discard()
	return nil
}
