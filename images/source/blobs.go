// The blobs of a result, and a layout made of them.

package source

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"slices"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"vfix.dev/vfix/images/blob"
	"vfix.dev/vfix/internal/hinterr"
	"vfix.dev/vfix/internal/progress"
)

// blobSet is every blob that an image or index needs, by digest.
type blobSet map[v1.Hash]v1.Layer

// prepare collects what a layout of r needs, and the entry for its index.json. An index goes as it is; a single image
// gets OCI media types. done is called when the blobs are written.
func prepare(ctx context.Context, r Result, tag string, o Options) (s blobSet, d v1.Descriptor, done func(), err error) {
	s, done = blobSet{}, func() {}
	if r.Index != nil {
		d, err = s.addIndex(r.Index, o.Progress)
	} else {
		var img v1.Image
		if img, done, err = portable(ctx, r.Image, OCILayout, o); err == nil {
			d, err = s.addImage(img)
		}
	}
	if tag != "" {
		d.Annotations = map[string]string{refNameKey: tag}
	}
	return s, d, done, err
}

// addManifest adds a manifest or an index, and describes it: with a platform and annotations it would be as in the
// place that it came from.
func (s blobSet) addManifest(m interface {
	partial.Describable
	RawManifest() ([]byte, error)
}) (v1.Descriptor, error) {
	raw, err := m.RawManifest()
	digest, derr := m.Digest()
	mediaType, terr := m.MediaType()
	d := v1.Descriptor{MediaType: mediaType, Size: int64(len(raw)), Digest: digest}
	s.addText(d, raw)
	return d, cmp.Or(err, derr, terr)
}

func (s blobSet) addText(d v1.Descriptor, text []byte) {
	d.Data = text
	s[d.Digest] = &layer{desc: d}
}

func (s blobSet) addImage(img v1.Image) (v1.Descriptor, error) {
	d, err := s.addManifest(img)
	m, merr := img.Manifest()
	config, cerr := img.RawConfigFile()
	layers, lerr := img.Layers()
	if err := cmp.Or(err, merr, cerr, lerr); err != nil {
		return d, err
	}
	if got, want := len(layers), len(m.Layers); got != want {
		return d, hinterr.Damaged("manifest %v: got %d layers, want %d", d.Digest, got, want)
	}
	s.addText(m.Config, config)
	for n, ld := range m.Layers {
		// A foreign layer may be only in its own place (image-spec, layer.md, "Non-Distributable Layers").
		if ld.MediaType.IsDistributable() || len(ld.URLs) == 0 {
			s[ld.Digest] = layers[n]
		}
	}
	return d, nil
}

// addIndex adds an index with all that is in it. A manifest that the source lists but does not have stays listed.
func (s blobSet) addIndex(idx v1.ImageIndex, p progress.Reporter) (v1.Descriptor, error) {
	d, err := s.addManifest(idx)
	m, merr := idx.IndexManifest()
	if err := cmp.Or(err, merr); err != nil {
		return d, err
	}
	for _, e := range m.Manifests {
		err := s.addEntry(idx, e, p)
		if errors.Is(err, hinterr.ErrNotFound) {
			p.Note("%v: listed in the index but not in the source: it stays listed", e.Digest)
		} else if err != nil {
			return d, err
		}
	}
	return d, nil
}

func (s blobSet) addEntry(idx v1.ImageIndex, e v1.Descriptor, p progress.Reporter) error {
	switch {
	case e.MediaType.IsIndex():
		sub, err := idx.ImageIndex(e.Digest)
		if err == nil {
			_, err = s.addIndex(sub, p)
		}
		return err
	case e.MediaType.IsImage():
		img, err := idx.Image(e.Digest)
		if err == nil {
			_, err = s.addImage(img)
		}
		return err
	}
	all, ok := idx.(interface {
		Layer(v1.Hash) (v1.Layer, error)
	})
	if !ok {
		return hinterr.Errorf(hinterr.ErrNotFound, "no blob %v", e.Digest)
	}
	l, err := all.Layer(e.Digest)
	if err == nil {
		s[e.Digest] = l
	}
	return err
}

// fileWriter writes one file of a layout, of size bytes.
type fileWriter func(name string, size int64, content func(io.Writer) error) error

// write writes a layout with the entry d.
func (s blobSet) write(ctx context.Context, d v1.Descriptor, o Options, to fileWriter) error {
	if err := s.writeBlobs(ctx, o, to); err != nil {
		return err
	}
	index, err := json.Marshal(v1.IndexManifest{SchemaVersion: 2, MediaType: types.OCIImageIndex, Manifests: []v1.Descriptor{d}})
	if err != nil {
		return err
	}
	text := func(name string, data []byte) error {
		return to(name, int64(len(data)), func(w io.Writer) error {
			_, err := w.Write(data)
			return err
		})
	}
	err = text(layoutIndex, index)
	if err == nil {
		err = text(layoutFile, []byte(`{"imageLayoutVersion":"`+layoutVersion+`"}`))
	}
	return cmp.Or(err, ctx.Err())
}

// writeBlobs writes the blobs in the order of their digests, verified.
func (s blobSet) writeBlobs(ctx context.Context, o Options, to fileWriter) error {
	byName := func(a, b v1.Hash) int { return cmp.Compare(a.String(), b.String()) }
	for _, digest := range slices.SortedFunc(maps.Keys(s), byName) {
		l := s[digest]
		size, err := l.Size()
		if err == nil {
			err = to(blobName(digest), size, func(w io.Writer) error { return copyBlob(ctx, w, l, digest, size, o) })
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func copyBlob(ctx context.Context, w io.Writer, l v1.Layer, digest v1.Hash, size int64, o Options) error {
	rc, err := blob.OpenUnverified(l)
	if err != nil {
		return err
	}
	checked, err := blob.Verified(rc, digest, size)
	if err != nil {
		return err
	}
	defer checked.Close()
	var task progress.Task
	if t, err := l.MediaType(); err == nil && IsLayer(t) {
		task = o.Progress.Start("write", blob.LayerName(l, digest), size)
		defer task.Done()
	}
	_, err = blob.CopyTo(ctx, w, checked, task)
	return err
}
