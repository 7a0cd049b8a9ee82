// Root filesystems on disk as the source and as the result of a rebuild.

package images

import (
	"context"
	"io"
	"os"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"vfix.dev/vfix/images/contents"
	"vfix.dev/vfix/images/source"
	"vfix.dev/vfix/internal/atomicfile"
	"vfix.dev/vfix/internal/progress"
	"vfix.dev/vfix/rewriter/patch"
)

// withRootImage adds an image to a source that is a directory or a tarball.
func withRootImage(ctx context.Context, src *source.Source, o source.Options) error {
	return source.WithRootImage(ctx, src, func(w io.Writer) error {
		defer progress.Start(o.Progress, "read", src.Path, -1).Done()
		return contents.WriteDirectory(ctx, w, src.Path)
	}, o)
}

// writeDirectory writes the merged file system of an image as a directory, completely or not at all. As root it keeps
// owners, extended attributes and devices; otherwise the caller owns all files, and a warning says what is lost.
func writeDirectory(ctx context.Context, s *contents.Session, dir string, img v1.Image) (warnings []string, err error) {
	t, err := s.Image(ctx, img)
	if err == nil {
		const private = 0o700 // until it has its owner
		err = atomicfile.WriteDir(dir, private, func(temp string) error {
			lost, err := t.Write(ctx, temp)
			if lost {
				warnings = []string{dir + ": owners, devices and attributes that only root may set are not kept"}
			}
			return err
		})
	}
	return warnings, contents.WrapPath("directory "+dir, err)
}

// Unpack writes the merged file system of a SOURCE into dir, an empty directory, as a rebuild to dir: does.
func Unpack(ctx context.Context, name, dir string, o source.Options) error {
	src, err := source.Open(ctx, name, o)
	if err != nil {
		return err
	}
	defer src.Close()
	return unpack(ctx, src, dir, o)
}

func unpack(ctx context.Context, src *source.Source, dir string, o source.Options) error {
	if src.Image == nil {
		if err := withRootImage(ctx, src, o); err != nil {
			return err
		}
	}
	s := contents.NewSession(0, o.Progress, patch.Options{})
	defer s.Close()
	_, err := writeDirectory(ctx, s, dir, src.Image)
	return err
}

// Directory returns a directory with the files of an open source: its own, or a temporary one, until it is closed.
func Directory(ctx context.Context, src *source.Source, o source.Options) (string, error) {
	if fi, err := os.Stat(src.Path); err == nil && fi.IsDir() && src.Image == nil {
		return src.Path, nil
	}
	temp, err := os.MkdirTemp("", "vfix-root-")
	if err != nil {
		return "", err
	}
	src.AtEnd(func() error { return os.RemoveAll(temp) })
	return temp, unpack(ctx, src, temp, o)
}
