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
func (t *Tree) Read(ctx context.Context, files []*Target, f func(*Target, io.Reader) error) error {
	layers := map[int]map[uint32]*Target{}
	for _, v := range files {
		if layers[v.Layer] == nil {
			layers[v.Layer] = map[uint32]*Target{}
		}
		layers[v.Layer][v.Number] = v
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
func readMembers(ctx context.Context, r io.Reader, want map[uint32]*Target, f func(*Target, io.Reader) error) error {
	for m, err := range blob.Members(r) {
		switch {
		case err != nil:
			return err
		case ctx.Err() != nil:
			return context.Cause(ctx)
		}
		if v := want[m.Number]; v != nil {
			if err := f(v, m.Content); err != nil {
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
	want, all := map[*Inode]*Target{}, map[string][]byte{}
	for name, i := range files {
		addName(want, i, name)
	}
	err := t.Read(ctx, slices.Collect(maps.Values(want)), func(v *Target, r io.Reader) error {
		content, err := io.ReadAll(r)
		for _, name := range v.Names {
			all[name] = content
		}
		return err
	})
	return all, err
}
