// The contents of one layer, in little memory: each layer is read once, but its visible files are known only after
// all layers have been read.

package contents

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"vfix.dev/vfix/images/blob"
	"vfix.dev/vfix/images/source"
	"vfix.dev/vfix/internal/hinterr"
	"vfix.dev/vfix/internal/progress"
)

// layerIndex has the members of one layer, in the order of the archive.
type layerIndex struct {
	Title   string // for messages: "layer sha256:…", or the path of a tarball
	DiffID  v1.Hash
	Entries []*Entry
	// absent is why the layer, or the end of a tarball, was not read, so that its contents are not known; nil if it was.
	absent *absence
}

// id is the diff ID of an image's layer, "" for others.
func (l *layerIndex) id() string {
	if l.DiffID == (v1.Hash{}) {
		return ""
	}
	return l.DiffID.String()
}

// readLayer reads one layer and examines its files.
func (s *Session) readLayer(ctx context.Context, l v1.Layer) (_ *layerIndex, err error) {
	if !source.AtHand(l) {
		return absentLayer(l, foreign, s.Progress)
	}
	ls, err := blob.OpenLayer(ctx, l, s.Progress)
	if errors.Is(err, hinterr.ErrNotFound) && source.IsForeign(l) {
		return absentLayer(l, foreign, s.Progress)
	}
	if err != nil {
		return nil, err
	}
	defer ls.Close()
	idx := &layerIndex{Title: "layer " + ls.Name, DiffID: ls.DiffID}
	x := &examiner{S: s, Layer: true}
	defer x.Close()
	head, _ := ls.Peek(blob.ArchiveHead)
	head = bytes.Clone(head)
	if idx.Entries, err = x.ReadEntries(ctx, ls); err == nil {
		return idx, ls.Finish()
	}
	if why := unknownFormat(l, head); why != nil && ctx.Err() == nil {
		return absentLayer(l, why, s.Progress)
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
			err := x.content(e, m)
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

// absence is why a layer is not read, with a hint.
type absence struct{ why, hint string }

// foreign is the absence of a layer that is stored elsewhere.
var foreign = &absence{"foreign, and not with the image", "download the image from the registry that has its foreign layers, then scan that copy; a layer that is not examined may have call sites"}

// unknownFormat returns why vfix cannot read a layer that does not begin with a tar entry: it is compressed,
// encrypted, or has a foreign media type; nil if the layer should be a tar stream, and is damaged.
func unknownFormat(l v1.Layer, head []byte) *absence {
	if name := blob.OtherCompression(head); name != "" {
		return &absence{"compressed with " + name + ", which vfix does not read",
			"compress the layers with gzip: 'skopeo copy --dest-compress --dest-compress-format gzip SOURCE oci:DIR', then scan that copy"}
	}
	t, err := blob.Underlying(l).MediaType()
	if err != nil || source.IsLayer(t) {
		return nil
	}
	a := &absence{"of media type " + string(t) + ", which vfix does not read", "the image needs a tool of its own; a layer that is not examined may have call sites"}
	if strings.HasSuffix(string(t), "+encrypted") {
		a.hint = "decrypt the layers: 'skopeo copy --decryption-key KEY SOURCE oci:DIR', then scan that copy"
	}
	return a
}

// absentLayer returns the index of a layer that is not read.
func absentLayer(l v1.Layer, why *absence, p progress.Reporter) (*layerIndex, error) {
	diffID, err := l.DiffID()
	if err != nil {
		return nil, err
	}
	progress.Note(p, "layer %s: %s: kept unchanged and not examined", blob.ShortHash(diffID), why.why)
	return &layerIndex{Title: "layer " + blob.ShortHash(diffID), DiffID: diffID, absent: why}, nil
}
