// Reads the contents of an image's files again: each of its layers has the positions of its members.

package contents

import (
	"context"
	"io"
	"maps"
	"slices"

	"vfix.dev/vfix/images/blob"
)

// Read calls f with the content of each of the files of an image, layer by layer, each up to the last of them.
func (t *Tree) Read(ctx context.Context, want []*Inode, f func(*Inode, io.Reader) error) error {
	layers := map[int]map[uint32]*Inode{}
	for _, i := range want {
		if layers[i.Layer] == nil {
			layers[i.Layer] = map[uint32]*Inode{}
		}
		layers[i.Layer][i.Number] = i
	}
	for _, n := range slices.Sorted(maps.Keys(layers)) {
		r, err := blob.OpenLayer(ctx, t.image[n], t.progress)
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
			delete(want, m.Number)
		}
		if len(want) == 0 {
			return nil
		}
	}
	return io.ErrUnexpectedEOF
}

// Contents returns the contents of whole files, by their names.
func (t *Tree) Contents(ctx context.Context, files map[string]*Inode) (map[string][]byte, error) {
	read, all := map[*Inode][]byte{}, map[string][]byte{}
	err := t.Read(ctx, slices.Collect(maps.Values(files)), func(i *Inode, r io.Reader) (err error) {
		read[i], err = io.ReadAll(r)
		return err
	})
	for name, i := range files {
		all[name] = read[i]
	}
	return all, err
}
