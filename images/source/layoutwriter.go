// Writing a layout, file by file, in a directory or an archive.

package source

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"vfix.dev/vfix/images/blob"
	"vfix.dev/vfix/internal/hinterr"
)

// layoutWriter writes the files of a layout, each blob once and before what names it.
type layoutWriter struct {
	ctx  context.Context
	o    Options
	to   fileWriter
	has  func(name string, size int64) bool // a file is there already, in its full size
	done map[v1.Hash]bool
}

// fileWriter writes one file of a layout, of size bytes.
type fileWriter func(name string, size int64, content io.Reader) error

// layout writes a layout with a result and returns the result's digest.
func (w *layoutWriter) layout(r Result, tag string) (v1.Hash, error) {
	d, err := w.blobs(r, tag)
	if err != nil {
		return d.Digest, err
	}
	index, err := json.Marshal(v1.IndexManifest{SchemaVersion: 2, MediaType: types.OCIImageIndex, Manifests: []v1.Descriptor{d}})
	if err == nil {
		err = w.to(layoutIndex, int64(len(index)), bytes.NewReader(index))
	}
	if err == nil {
		const version = `{"imageLayoutVersion":"1.0.0"}`
		err = w.to(layoutFile, int64(len(version)), strings.NewReader(version))
	}
	return d.Digest, cmp.Or(err, w.ctx.Err())
}

// blobs writes the blobs of a result and returns the entry for its index.json. An index goes as it is.
func (w *layoutWriter) blobs(r Result, tag string) (d v1.Descriptor, err error) {
	if d, err = w.manifest(r.Image); err == nil && r.Index != nil {
		d, err = w.manifest(r.Index)
	}
	if tag != "" {
		d.Annotations = map[string]string{refNameKey: tag}
	}
	return d, err
}

// manifest is an image or an index.
type manifest interface {
	partial.Describable
	RawManifest() ([]byte, error)
}

// manifest writes an image or an index with all that it names, and describes it: with a platform and annotations it
// would be as in the place that it came from.
func (w *layoutWriter) manifest(m manifest) (d v1.Descriptor, err error) {
	switch m := m.(type) {
	case v1.Image:
		err = w.parts(m)
	case v1.ImageIndex:
		err = w.entries(m)
	}
	if err != nil {
		return d, err
	}
	raw, err := m.RawManifest()
	is, derr := partial.Descriptor(m)
	if err := cmp.Or(err, derr); err != nil {
		return d, err
	}
	d = v1.Descriptor{MediaType: is.MediaType, Size: is.Size, Digest: is.Digest}
	return d, w.blob(static.NewLayer(raw, is.MediaType))
}

// parts writes the layers and the config of an image.
func (w *layoutWriter) parts(img v1.Image) error {
	layers, err := img.Layers()
	config, cerr := partial.ConfigLayer(img)
	if err := cmp.Or(err, cerr); err != nil {
		return err
	}
	for _, l := range append(layers, config) {
		if err := w.blob(l); err != nil {
			return err
		}
	}
	return nil
}

// entries writes the images and indexes in an index; nothing else is in those that builders write. One of which the
// source does not have all, such as an image of Windows with layers that are elsewhere, stays listed.
func (w *layoutWriter) entries(idx v1.ImageIndex) error {
	all, err := idx.IndexManifest()
	if err != nil {
		return err
	}
	for _, d := range all.Manifests {
		var m manifest
		if d.MediaType.IsIndex() {
			m, err = idx.ImageIndex(d.Digest)
		} else {
			m, err = idx.Image(d.Digest)
		}
		if err == nil {
			_, err = w.manifest(m)
		}
		if errors.Is(err, hinterr.ErrNotFound) {
			w.o.Progress.Note("%v: listed in the index but not whole in the source: it stays listed: %v", d.Digest, err)
		} else if err != nil {
			return err
		}
	}
	return nil
}

// blob writes a blob. A layer of a source errs if it does not have its digest.
func (w *layoutWriter) blob(l v1.Layer) error {
	d, err := partial.Descriptor(l)
	if err != nil || w.done[d.Digest] || w.has(blobName(d.Digest), d.Size) {
		return err
	}
	rc, err := l.Compressed()
	if err != nil {
		return err
	}
	defer rc.Close()
	w.done[d.Digest] = true
	task := w.o.Progress.Start("write", blob.ShortHash(d.Digest), d.Size)
	defer task.Done()
	return w.to(blobName(d.Digest), d.Size, blob.Reading{Ctx: w.ctx, Reader: rc, T: task})
}
