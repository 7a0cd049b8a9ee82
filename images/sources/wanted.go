// The visible regular files of an image, read layer by layer.

package sources

import (
	"context"
	"errors"
	"io"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"vfix.dev/vfix/images/blob"
	"vfix.dev/vfix/images/contents"
	"vfix.dev/vfix/internal/progress"
)

// place is where a member stands: the number of its layer, and its own in there.
type place struct{ layer, number int }

// wantedFile is a visible regular file whose content is to be read.
type wantedFile struct {
	names []string
	entry *contents.Entry
}

// wanted are the regular files of a merged file system.
type wanted map[place]*wantedFile

// note notes a name, if it is one of a regular file.
func (w wanted) note(name string, k *contents.Node) bool {
	if k.Kind != contents.KindFile && k.Kind != contents.KindPool {
		return false
	}
	at := place{k.Inode.Layer, k.Number}
	if w[at] == nil {
		w[at] = &wantedFile{entry: k.Entry}
	}
	w[at].names = append(w[at].names, name)
	return true
}

// read reads the layers that have such files, and calls f for each file.
func (w wanted) read(ctx context.Context, img v1.Image, p progress.Reporter, f func(context.Context, *wantedFile, io.Reader) error) error {
	layers, err := img.Layers()
	if err != nil {
		return err
	}
	for n, l := range layers {
		if err := w.layer(ctx, n, l, p, f); err != nil {
			return err
		}
	}
	return nil
}

// layer reads layer number n, if a file of it is visible.
func (w wanted) layer(ctx context.Context, n int, l v1.Layer, p progress.Reporter, f func(context.Context, *wantedFile, io.Reader) error) error {
	if !w.needs(n) {
		return nil
	}
	ls, err := blob.OpenLayer(ctx, l, p)
	if err != nil {
		return err
	}
	defer ls.Close()
	tr := blob.NewMemberReader(ls)
	for {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return ls.Finish()
		}
		if err != nil {
			return ls.Wrap(err)
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if file := w[place{n, h.Number}]; file != nil {
			if err := f(ctx, file, tr); err != nil {
				return ls.Wrap(err)
			}
		}
	}
}

// needs reports whether a file of layer number n is visible.
func (w wanted) needs(n int) bool {
	for at := range w {
		if at.layer == n {
			return true
		}
	}
	return false
}
