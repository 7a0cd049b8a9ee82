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

// members is the origin of a layer of a tree: an image's layer, a tarball, a directory; nil for a stream that can
// be read only once.
type members interface {
	// read calls f with the content of each member in want, by their numbers. With all it reads to the end, so
	// that the content is verified when it returns; otherwise only up to the last of them.
	read(ctx context.Context, want map[uint32]*Inode, all bool, f func(*Inode, io.Reader) error) error
}

// Read calls f with the content of each of the files, layer by layer. If it returns nil, the content of an image
// is verified.
func (t *Tree) Read(ctx context.Context, want []*Inode, f func(*Inode, io.Reader) error) error {
	return t.read(ctx, want, true, f)
}

func (t *Tree) read(ctx context.Context, want []*Inode, all bool, f func(*Inode, io.Reader) error) error {
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
		if err := t.from[n].read(ctx, layers[n], all, f); err != nil {
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
		switch {
		case i.ELF != nil && i.ELF.Content != nil:
			got[i] = i.ELF.Content
		case i.kept != nil:
			got[i] = i.kept
		default:
			missing = append(missing, i)
		}
	}
	return got, t.read(ctx, missing, false, func(i *Inode, r io.Reader) (err error) {
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

// hold makes the targets' contents available if the tree was examined file by file.
func (t *Tree) hold(ctx context.Context, targets []Target) error {
	var want []*Inode
	for _, h := range targets {
		if h.ELF.Content == nil {
			want = append(want, h.Inode)
		}
	}
	got, err := t.Fetch(ctx, want)
	for _, i := range want {
		i.ELF.Content = got[i]
	}
	return err
}

func readMembers(ctx context.Context, r io.Reader, want map[uint32]*Inode, all bool, f func(*Inode, io.Reader) error) error {
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
		if left == 0 && !all {
			return nil
		}
	}
	if left > 0 {
		return io.ErrUnexpectedEOF
	}
	return nil
}

// layerMembers are the members of an image's layer.
type layerMembers struct {
	v1.Layer
	p progress.Reporter
}

func (l layerMembers) read(ctx context.Context, want map[uint32]*Inode, all bool, f func(*Inode, io.Reader) error) error {
	ls, err := blob.OpenLayer(ctx, l.Layer, l.p)
	if err != nil {
		return err
	}
	defer ls.Close()
	if err := readMembers(ctx, ls, want, all, f); err != nil || !all {
		return ls.Wrap(err)
	}
	return ls.Finish()
}

// tarMembers are the members of a tarball, by its path.
type tarMembers string

func (t tarMembers) read(ctx context.Context, want map[uint32]*Inode, all bool, f func(*Inode, io.Reader) error) error {
	return unpacked(ctx, string(t), func(body io.Reader) error { return readMembers(ctx, body, want, all, f) })
}

// unpacked calls f with the content of a tarball that may be compressed.
func unpacked(ctx context.Context, name string, f func(body io.Reader) error) error {
	file, err := os.Open(name)
	if err != nil {
		return err
	}
	defer file.Close()
	body, _, err := blob.Decompress(ctx, blob.Reading{Ctx: ctx, Reader: file})
	if err != nil {
		return WrapPath(name, err)
	}
	defer body.Close()
	return WrapPath(name, f(body))
}

// read passes the contents of a directory's files; f gets an *os.File.
func (d *Disk) read(ctx context.Context, want map[uint32]*Inode, _ bool, f func(*Inode, io.Reader) error) error {
	for _, n := range slices.Sorted(maps.Keys(want)) {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		r, err := d.open(want[n].Entry)
		if err == nil {
			err = f(want[n], r)
			r.Close()
		}
		if err != nil {
			return WrapPath(d.Full(want[n].Name), err)
		}
	}
	return nil
}
