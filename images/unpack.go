// Unpacking: a SOURCE as a directory, to run something in it.

package images

import (
	"context"
	"errors"
	"fmt"
	"os"

	"vfix.dev/vfix/images/media"
	"vfix.dev/vfix/images/sources"
	"vfix.dev/vfix/internal/hinterr"
)

// Unpack writes the merged file system of a SOURCE into dir, an empty directory, as sources.Unpack
// does. A SOURCE that is a directory is copied as it is.
func Unpack(ctx context.Context, source, dir string, o media.Options) (err error) {
	src, err := sources.Open(ctx, source, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, src.Close()) }()
	if src.Image == nil {
		if fi, err := os.Stat(src.Path); err != nil {
			return err
		} else if !fi.IsDir() {
			return fmt.Errorf("%s: %w: neither an image nor a root file system", source, hinterr.ErrUnsupported)
		}
		return os.CopyFS(dir, os.DirFS(src.Path))
	}
	return sources.Unpack(ctx, src.Image, dir, o)
}
