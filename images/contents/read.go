// Reads the contents of a tree's files again: each of its layers has the positions of its members.

package contents

import (
	"context"
	"errors"
	"io"
	"maps"
	"slices"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"vfix.dev/vfix/images/blob"
	"vfix.dev/vfix/internal/progress"
)

// opener opens the tar stream of a layer or a tarball; nil for a stream that can be read only once.
type opener func(context.Context) (io.ReadCloser, error)

func (s *Session) layerOpener(l v1.Layer) opener {
	return func(ctx context.Context) (io.ReadCloser, error) { return blob.OpenLayer(ctx, l, s.Progress) }
}

func (s *Session) tarballOpener(name, title string) opener {
	return func(ctx context.Context) (io.ReadCloser, error) {
		f, size, err := blob.OpenRegular(name)
		if err != nil {
			return nil, err
		}
		task := progress.Start(s.Progress, "read", title, size)
		end := func() { task.Done(); f.Close() }
		body, _, err := blob.Decompress(ctx, blob.Reading{Ctx: ctx, Reader: f, T: task})
		if err != nil {
			end()
			return nil, WrapPath(title, err)
		}
		return closing{body, end}, nil
	}
}

// closing is a stream that is made of another one, which ends with it.
type closing struct {
	io.ReadCloser
	end func()
}

func (c closing) Close() error {
	defer c.end()
	return c.ReadCloser.Close()
}

// Read calls f with the content of each of the files, layer by layer, each up to the last of them.
func (t *Tree) Read(ctx context.Context, want []*Inode, f func(*Inode, io.Reader) error) error {
	layers := map[int]map[uint32]*Inode{}
	for _, i := range want {
		if layers[i.Layer] == nil {
			layers[i.Layer] = map[uint32]*Inode{}
		}
		layers[i.Layer][i.Number] = i
	}
	for _, n := range slices.Sorted(maps.Keys(layers)) {
		if t.from[n] == nil {
			return errors.New("a stream that is read once")
		}
		r, err := t.from[n](ctx)
		if err != nil {
			return err
		}
		err = readMembers(ctx, r, layers[n], f)
		r.Close()
		if err != nil {
			return WrapPath(t.Layers[n].Title, err)
		}
	}
	return nil
}

// readMembers calls f with the content of each wanted member, by their numbers, up to the last of them.
func readMembers(ctx context.Context, r io.Reader, want map[uint32]*Inode, f func(*Inode, io.Reader) error) error {
	left := len(want)
	for m, err := range blob.Members(r) {
		switch {
		case err != nil:
			return err
		case ctx.Err() != nil:
			return context.Cause(ctx)
		}
		if i := want[m.Number]; i != nil {
			if err := f(i, m.Content); err != nil {
				return WrapPath(m.Path, err)
			}
			left--
		}
		if left == 0 {
			return nil
		}
	}
	return io.ErrUnexpectedEOF
}

// Contents reads whole files, by their names.
func (t *Tree) Contents(ctx context.Context, files map[string]*Inode) (map[string][]byte, error) {
	read := map[*Inode][]byte{}
	err := t.Read(ctx, slices.Collect(maps.Values(files)), func(i *Inode, r io.Reader) (err error) {
		read[i], err = io.ReadAll(r)
		return err
	})
	all := map[string][]byte{}
	for name, i := range files {
		all[name] = read[i]
	}
	return all, err
}
