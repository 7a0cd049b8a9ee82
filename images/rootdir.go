// Root filesystems on disk as the source and as the result of a rebuild.

package images

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"vfix.dev/vfix/images/contents"
	"vfix.dev/vfix/images/source"
	"vfix.dev/vfix/internal/atomicfile"
	"vfix.dev/vfix/internal/hinterr"
	"vfix.dev/vfix/internal/progress"
	"vfix.dev/vfix/rewriter/patch"
)

// withRootImage adds an image to a source that is a directory or a tarball.
func withRootImage(ctx context.Context, src *source.Source, o source.Options) error {
	dir := src.Path
	return source.WithRootImage(ctx, src, func(w io.Writer) error { return writeDirectory(ctx, w, dir, o.Progress) }, o)
}

// writeDirectory writes a directory, itself included, as a tar stream: with owners, modes, times, extended attributes
// and hard links, without sockets and mounts.
func writeDirectory(ctx context.Context, w io.Writer, dir string, p progress.Reporter) error {
	d, err := contents.OpenDisk(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	d.Whole, d.Unexamined = true, true
	s := contents.NewSession(0, nil, patch.Options{})
	defer s.Close()
	t, err := d.Tree(ctx, s)
	if err != nil {
		return err
	}
	top, err := d.Root.Open(".")
	if err != nil {
		return err
	}
	defer top.Close()
	e := contents.Entry{Kind: contents.KindDir}
	if e.Meta, err = contents.OpenMeta(top); err != nil {
		return err
	}
	tw := tar.NewWriter(w) // for one header, after which the others follow
	if err := errors.Join(tw.WriteHeader(e.Header(".")), tw.Flush()); err != nil {
		return err
	}
	task := progress.Start(p, "read", dir, -1)
	defer task.Done()
	return t.WriteTar(ctx, w, task, source.MayBeInLayer)
}

// putDirectory writes the merged file system of an image as a directory, completely or not at all. As root it keeps
// owners, extended attributes and devices; otherwise the caller owns all files, and a warning lists what is lost.
func putDirectory(ctx context.Context, s *contents.Session, dest source.Ref, img v1.Image) (st source.Stored, err error) {
	if err := source.CheckRootDest(dest.Name); err != nil {
		return st, err
	}
	t, err := s.Image(ctx, img)
	if err != nil {
		return st, err
	}
	var lost contents.Lost
	const private = 0o700 // until it has its owner
	err = atomicfile.WriteDir(dest.Name, private, func(temp string) (err error) {
		lost, err = contents.WriteTree(ctx, t, temp, func(i *contents.Inode, r io.Reader) (io.Reader, *contents.Meta, error) {
			return r, &i.Meta, nil
		})
		return err
	})
	if err != nil {
		return st, fmt.Errorf("directory %s: %w", dest.Name, err)
	}
	st.Reference = dest.String()
	if text := lost.Warning(); text != "" {
		st.Warnings = []string{text}
	}
	return st, nil
}

// Unpack writes the merged file system of a SOURCE into dir, an empty directory, as a rebuild to dir: does. A SOURCE
// that is a directory is copied as it is.
func Unpack(ctx context.Context, name, dir string, o source.Options) error {
	src, err := source.Open(ctx, name, o)
	if err != nil {
		return err
	}
	defer src.Close()
	if src.Image == nil {
		if fi, err := os.Stat(src.Path); err != nil || !fi.IsDir() {
			return hinterr.Errorf(hinterr.ErrUnsupported, "%s: neither an image nor a root file system", name)
		}
		return os.CopyFS(dir, os.DirFS(src.Path))
	}
	s := contents.NewSession(0, o.Progress, patch.Options{})
	defer s.Close()
	_, err = putDirectory(ctx, s, source.Ref{Transport: source.Dir, Name: dir}, src.Image)
	return err
}
