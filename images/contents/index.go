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
	"vfix.dev/vfix/internal/progress"
)

// layerIndex has the members of one layer, in the order of the archive.
type layerIndex struct {
	Title   string // for messages: "layer sha256:…", or the path of a tarball
	DiffID  string // of an image's layer, "" for others
	Entries []*Entry
	// absent is why the layer was not read, so that its contents are not known; "" if it was.
	absent string
}

// readLayer reads one layer and examines its files.
func (s *Session) readLayer(ctx context.Context, l v1.Layer) (_ *layerIndex, err error) {
	ls, err := blob.OpenLayer(ctx, l, s.Progress)
	if errors.Is(err, hinterr.ErrNotFound) && source.IsForeign(l) {
		return s.absentLayer(l, foreign)
	}
	if err != nil {
		return nil, err
	}
	defer ls.Close()
	idx := &layerIndex{Title: "layer " + ls.Name, DiffID: ls.DiffID.String()}
	x := &examiner{S: s, Layer: true}
	defer x.Close()
	if idx.Entries, err = x.ReadEntries(ctx, ls); err == nil {
		return idx, ls.Finish()
	}
	if t, typeErr := l.MediaType(); typeErr == nil && !source.IsLayer(t) && ctx.Err() == nil { // such as an encrypted one
		return s.absentLayer(l, "of media type "+string(t)+", which vfix does not read")
	}
	// If the layer does not have its digest, that is the reason.
	return nil, cmp.Or(ls.Finish(), ls.Wrap(err))
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

// foreign is why a layer that is stored elsewhere is not read.
const foreign = "foreign, and not with the image"

// absentLayer returns the index of a layer that is not read.
func (s *Session) absentLayer(l v1.Layer, why string) (*layerIndex, error) {
	diffID, err := l.DiffID()
	if err != nil {
		return nil, err
	}
	title := "layer " + blob.ShortHash(diffID)
	progress.Note(s.Progress, "%s: %s: kept unchanged and not examined", title, why)
	return &layerIndex{Title: title, DiffID: diffID.String(), absent: why}, nil
}
