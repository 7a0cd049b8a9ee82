// Writing a layout, file by file, in a directory or an archive.

package source

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"

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
	done map[v1.Hash]bool
}

// fileWriter writes one file of a layout, of size bytes.
type fileWriter func(name string, size int64, content func(io.Writer) error) error

// writeLayout writes a layout with a result and returns the result's digest.
func writeLayout(ctx context.Context, r Result, tag string, o Options, to fileWriter) (v1.Hash, error) {
	d, err := writeBlobs(ctx, r, tag, o, to)
	if err != nil {
		return d.Digest, err
	}
	index, err := json.Marshal(v1.IndexManifest{SchemaVersion: 2, MediaType: types.OCIImageIndex, Manifests: []v1.Descriptor{d}})
	write := func(name string, text []byte) error {
		return to(name, int64(len(text)), func(w io.Writer) error {
			_, err := w.Write(text)
			return err
		})
	}
	if err == nil {
		err = write(layoutIndex, index)
	}
	if err == nil {
		err = write(layoutFile, []byte(`{"imageLayoutVersion":"`+layoutVersion+`"}`))
	}
	return d.Digest, cmp.Or(err, ctx.Err())
}

// writeBlobs writes the blobs of a result and returns the entry for its index.json. An index goes as it is.
func writeBlobs(ctx context.Context, r Result, tag string, o Options, to fileWriter) (d v1.Descriptor, err error) {
	w := &layoutWriter{ctx, o, to, map[v1.Hash]bool{}}
	if r.Index != nil {
		d, err = w.manifest(r.Index)
	} else {
		d, err = w.manifest(r.Image)
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

// entries writes the images and indexes in an index; nothing else is in those that builders write. One that the source
// lists but does not have stays listed.
func (w *layoutWriter) entries(idx v1.ImageIndex) error {
	all, err := idx.IndexManifest()
	if err != nil {
		return err
	}
	for _, d := range all.Manifests {
		m, err := entry(idx, d)
		if errors.Is(err, hinterr.ErrNotFound) {
			w.o.Progress.Note("%v: listed in the index but not in the source: it stays listed", d.Digest)
			continue
		}
		if err == nil {
			_, err = w.manifest(m)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// entry opens an image, with its config, or an index in an index.
func entry(idx v1.ImageIndex, d v1.Descriptor) (manifest, error) {
	if d.MediaType.IsIndex() {
		return idx.ImageIndex(d.Digest)
	}
	img, err := idx.Image(d.Digest)
	if err == nil {
		_, err = img.RawConfigFile()
	}
	return img, err
}

// blob writes a blob. A layer of a source errs if it does not have its digest.
func (w *layoutWriter) blob(l v1.Layer) error {
	d, err := partial.Descriptor(l)
	if err != nil || w.done[d.Digest] {
		return err
	}
	w.done[d.Digest] = true
	return w.to(blobName(d.Digest), d.Size, func(to io.Writer) error {
		rc, err := l.Compressed()
		if err != nil {
			return err
		}
		defer rc.Close()
		task := w.o.Progress.Start("write", blob.LayerName(l, d.Digest), d.Size)
		defer task.Done()
		_, err = blob.CopyTo(w.ctx, to, rc, task)
		return err
	})
}
