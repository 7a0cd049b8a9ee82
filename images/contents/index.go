// The contents of one layer, in little memory: each layer is read once, but its visible files are known only after
// all layers have been read.

package contents

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"

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
	if t, typeErr := l.MediaType(); err != nil && typeErr == nil && !source.IsLayer(t) { // such as an encrypted one
		err = hinterr.With(hinterr.Errorf(hinterr.ErrUnsupported, "media type %s, which vfix does not read", t),
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
		if err != nil {
			return nil, err
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
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
