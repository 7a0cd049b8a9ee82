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
	if err != nil {
		return nil, err
	}
	const private = 0o700 // until it has its owner
	err = atomicfile.WriteDir(dir, private, func(temp string) (err error) {
		warnings, err = t.Write(ctx, temp)
		return err
	})
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

// Root is the file system of a SOURCE that is opened once, to be scanned and to have its files read.
type Root struct {
	IsImage bool
	src     *source.Source
	o       ScanOptions
	temp    string // directory with the files of an image or a tarball, "" until they are needed
	err     error  // why they could not be unpacked: they are not, a second time
}

// OpenRoot opens the file system of a SOURCE.
func OpenRoot(ctx context.Context, name string, o ScanOptions) (*Root, error) {
	o.Media = o.Media.WithDefaults()
	src, err := source.Open(ctx, name, o.Media)
	if err != nil {
		return nil, err
	}
	return &Root{IsImage: src.Image != nil, src: src, o: o}, nil
}

// Scan is Scan of the SOURCE.
func (r *Root) Scan(ctx context.Context) (*contents.Findings, error) {
	s := contents.NewSession(r.o.Jobs, r.o.Media.Progress, r.o.Rewriter)
	defer s.Close()
	return ScanSource(ctx, s, r.src, r.o)
}

// Dir returns a directory with the files, until Close: that of the SOURCE, or a temporary one.
func (r *Root) Dir(ctx context.Context) (string, error) {
	if fi, err := os.Stat(r.src.Path); err == nil && fi.IsDir() && !r.IsImage {
		return r.src.Path, nil
	}
	if r.temp == "" && r.err == nil {
		if r.temp, r.err = os.MkdirTemp("", "vfix-root-"); r.err == nil {
			r.err = unpack(ctx, r.src, r.temp, r.o.Media)
		}
	}
	return r.temp, r.err
}

// Close closes the SOURCE.
func (r *Root) Close() {
	r.src.Close()
	if r.temp != "" {
		os.RemoveAll(r.temp)
	}
}
