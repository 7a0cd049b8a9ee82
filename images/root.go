// The files of a SOURCE as a directory, to read them or to run something in it.

package images

import (
	"context"
	"errors"
	"os"

	"vfix.dev/vfix/images/source"
)

// Unpack writes the merged file system of a SOURCE into dir, an empty directory, with what the caller may set of owners
// and attributes.
func Unpack(ctx context.Context, name, dir string, o source.Options) (err error) {
	src, err := source.Open(ctx, name, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, src.Close()) }()
	return unpack(ctx, src, dir, o)
}

func unpack(ctx context.Context, src *source.Source, dir string, o source.Options) error {
	if src.Image == nil {
		if err := source.WithRootImage(ctx, src, o); err != nil {
			return err
		}
	}
	_, err := source.Put(ctx, source.Ref{Transport: source.Dir, Name: dir}, source.Result{Image: src.Image}, o)
	return err
}

// OpenRoot returns the directory of a SOURCE: its own, or a temporary one with the files of an image or a tarball,
// which done removes.
func OpenRoot(ctx context.Context, name string, o source.Options) (dir string, isImage bool, done func(), err error) {
	src, err := source.Open(ctx, name, o)
	if err != nil {
		return "", false, nil, err
	}
	defer src.Close()
	isImage = src.Image != nil
	if fi, err := os.Stat(src.Path); err == nil && fi.IsDir() && !isImage {
		return src.Path, false, func() {}, nil
	}
	if dir, err = os.MkdirTemp("", "vfix-root-"); err != nil {
		return "", false, nil, err
	}
	done = func() { os.RemoveAll(dir) }
	if err := unpack(ctx, src, dir, o); err != nil {
		done()
		return "", false, nil, err
	}
	return dir, isImage, done, nil
}
