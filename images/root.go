// The files of a SOURCE, to be read by name.

package images

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"vfix.dev/vfix/images/contents"
	"vfix.dev/vfix/images/source"
	"vfix.dev/vfix/rewriter/patch"
)

// Root is the merged file system of an image or a tarball as an fs.FS: names have no leading slash, and symlinks
// are followed inside it. Its files can be read at any offset. For other sources, FS is nil, and the caller reads
// Path.
type Root struct {
	FS     fs.FS
	Path   string
	Source string // as resolved, with its transport
	// Program is the program that a container of the image starts, "" if the image does not have one.
	Program string
	// Session has read Src: other examinations of Src with it read no layer again.
	Session *contents.Session
	Src     *source.Source
}

// Close removes temporary files; the files of FS can no longer be read.
func (r *Root) Close() error {
	r.Session.Close()
	return r.Src.Close()
}

// OpenRoot opens the files of a SOURCE. The caller must Close it.
func OpenRoot(ctx context.Context, name string, o source.Options) (*Root, error) {
	src, err := source.Open(ctx, name, o)
	if err != nil {
		return nil, err
	}
	s := contents.NewSession(0, o.Progress, patch.Options{})
	r := &Root{Path: src.Path, Source: src.Ref.String(), Session: s, Src: src}
	var t *contents.Tree
	if src.Image != nil {
		t, err = s.Image(ctx, src.Image)
	} else if tarball, _ := contents.IsTarball(src.Path); tarball {
		t, err = s.Tarball(ctx, src.Path, src.Title())
	} else {
		return r, nil
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", r.Source, err), r.Close())
	}
	r.FS = contents.FS(ctx, t)
	if src.Image == nil {
		return r, nil
	}
	if cfg, err := src.Image.ConfigFile(); err == nil {
		if words := append(slices.Clone(cfg.Config.Entrypoint), cfg.Config.Cmd...); len(words) > 0 {
			r.Program = words[0]
		}
	}
	return r, nil
}
