// Layers are read once, and the members of each are kept in little memory: the visible files are known only after all
// layers have been read. The contents of some are read again, by the positions of the members.

package contents

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"vfix.dev/vfix/images/blob"
	"vfix.dev/vfix/images/source"
	"vfix.dev/vfix/internal/hinterr"
)

// layerIndex has the members of one layer, in the order of the archive.
type layerIndex struct {
	Title   string // for messages: "layer sha256:…", or the path of a tarball
	DiffID  string // of an image's layer, "" for others
	Entries []*Entry
}

// readLayer reads one layer and examines its files.
func (s *Session) readLayer(ctx context.Context, l v1.Layer) (*layerIndex, error) {
	ls, err := blob.OpenLayer(ctx, l, s.Progress)
	if err != nil {
		return nil, err
	}
	defer ls.Close()
	x := &examiner{S: s, Layer: true}
	defer x.Close()
	entries, err := x.ReadEntries(ctx, ls)
	t, typeErr := l.MediaType()
	if errors.Is(err, hinterr.ErrDamaged) && typeErr == nil && !source.IsLayer(t) { // such as an encrypted one
		return nil, hinterr.With(ls.Wrap(hinterr.Errorf(hinterr.ErrUnsupported, "media type %s, which vfix does not read", t)),
			"convert or decrypt the image first: 'skopeo copy' has --decryption-key")
	}
	// If the layer does not have its digest, that is the reason.
	err = cmp.Or(ls.Finish(), ls.Wrap(err))
	return &layerIndex{Title: "layer " + ls.Name, DiffID: ls.DiffID.String(), Entries: entries}, err
}

// ReadEntries reads the members of a tar stream and returns their entries.
func (x *examiner) ReadEntries(ctx context.Context, r io.Reader) ([]*Entry, error) {
	var all []*Entry
	for m, err := range blob.Members(r) {
		if err := cmp.Or(err, context.Cause(ctx)); err != nil {
			return nil, err
		}
		e, err := newEntry(m, x.Layer)
		if err != nil {
			return nil, err
		}
		if e == nil {
			continue
		}
		if e.HasContent() {
			err := x.content(e, m.Content)
			if errors.Is(err, io.ErrUnexpectedEOF) {
				err = hinterr.Damaged("ends early")
			}
			if err != nil {
				return nil, fmt.Errorf("%s: %w", e.Name, err)
			}
		}
		all = append(all, e)
	}
	return all, nil
}

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
		if err := cmp.Or(err, context.Cause(ctx)); err != nil {
			return err
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
