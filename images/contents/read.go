// Reads the contents of a tree's files again: each of its layers has the positions of its members.

package contents

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"vfix.dev/vfix/images/blob"
	"vfix.dev/vfix/internal/progress"
)

// members is the origin of a layer of a tree: an image's layer or a tarball; nil for a stream that can
// be read only once.
type members interface {
	// read calls f with the content of each member in want, by their numbers, up to the last of them.
	read(ctx context.Context, want map[uint32]*Inode, f func(*Inode, io.Reader) error) error
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
		if err := t.from[n].read(ctx, layers[n], f); err != nil {
			return err
		}
	}
	return nil
}

// Fetch makes the contents of files readable at any offset, as long as the session lasts.
func (t *Tree) Fetch(ctx context.Context, want []*Inode) (map[*Inode]*io.SectionReader, error) {
	got := map[*Inode]*io.SectionReader{}
	var missing []*Inode
	for _, i := range want {
		if i.ELF != nil && i.ELF.Content != nil {
			got[i] = i.ELF.Content
		} else {
			missing = append(missing, i)
		}
	}
	return got, t.Read(ctx, missing, func(i *Inode, r io.Reader) (err error) {
		got[i], err = t.spool.KeepStream(r, i.Size)
		return err
	})
}

// EachContent reads whole files, in the order of their names.
func (t *Tree) EachContent(ctx context.Context, files map[string]*Inode, f func(name string, content []byte)) error {
	got, err := t.Fetch(ctx, slices.Collect(maps.Values(files)))
	if err != nil {
		return err
	}
	for _, name := range SortedKeys(files) {
		content, err := io.ReadAll(io.NewSectionReader(got[files[name]], 0, files[name].Size))
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		f(name, content)
	}
	return nil
}

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

// layerMembers are the members of an image's layer.
type layerMembers struct {
	v1.Layer
	p progress.Reporter
}

func (l layerMembers) read(ctx context.Context, want map[uint32]*Inode, f func(*Inode, io.Reader) error) error {
	ls, err := blob.OpenLayer(ctx, l.Layer, l.p)
	if err != nil {
		return err
	}
	defer ls.Close()
	return ls.Wrap(readMembers(ctx, ls, want, f))
}

// tarMembers are the members of a tarball, by its path.
type tarMembers string

func (t tarMembers) read(ctx context.Context, want map[uint32]*Inode, f func(*Inode, io.Reader) error) error {
	file, err := os.Open(string(t))
	if err != nil {
		return err
	}
	defer file.Close()
	body, _, err := blob.Decompress(ctx, blob.Reading{Ctx: ctx, Reader: file})
	if err != nil {
		return WrapPath(string(t), err)
	}
	defer body.Close()
	return WrapPath(string(t), readMembers(ctx, body, want, f))
}
