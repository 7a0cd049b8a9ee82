// Unpacking: a SOURCE as a directory, to run something in it.

package images

import (
	"context"
	"errors"
	"fmt"
	"os"

	"vfix.dev/vfix/images/source"
	"vfix.dev/vfix/internal/hinterr"
)

// Unpack writes the merged file system of a SOURCE into dir, an empty directory, as vfix
// rebuild -o dir: does. A SOURCE that is a directory is copied as it is.
func Unpack(ctx context.Context, name, dir string, o source.Options) (err error) {
	src, err := source.Open(ctx, name, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, src.Close()) }()
	if src.Image == nil {
		if fi, err := os.Stat(src.Path); err != nil {
			return err
		} else if !fi.IsDir() {
			return fmt.Errorf("%s: %w: neither an image nor a root file system", name, hinterr.ErrUnsupported)
		}
		return os.CopyFS(dir, os.DirFS(src.Path))
	}
	_, err = source.Put(ctx, source.Ref{Transport: source.Dir, Name: dir}, source.Result{Image: src.Image}, o)
	return err
}
