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
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"vfix.dev/vfix/images/blob"
	"vfix.dev/vfix/internal/hinterr"
	"vfix.dev/vfix/internal/progress"
)

// blobSet is every blob that an image or index needs, by digest.
type blobSet map[v1.Hash]v1.Layer

// blobsOf collects what a layout of r needs, and the entry for its index.json. An index goes as it is.
func blobsOf(r Result, tag string, p progress.Reporter) (s blobSet, d v1.Descriptor, err error) {
	s = blobSet{}
	if r.Index != nil {
		d, err = s.add(r.Index, p)
	} else {
		d, err = s.add(r.Image, p)
	}
	if tag != "" {
		d.Annotations = map[string]string{refNameKey: tag}
	}
	return s, d, err
}

// manifest is an image or an index.
type manifest interface {
	partial.Describable
	RawManifest() ([]byte, error)
}

// add adds an image or an index with all that it names, and describes it: with a platform and annotations it would be
// as in the place that it came from.
func (s blobSet) add(m manifest, p progress.Reporter) (v1.Descriptor, error) {
	raw, err := m.RawManifest()
	digest, derr := m.Digest()
	mediaType, terr := m.MediaType()
	d := v1.Descriptor{MediaType: mediaType, Size: int64(len(raw)), Digest: digest}
	if err := cmp.Or(err, derr, terr); err != nil {
		return d, err
	}
	s[digest] = static.NewLayer(raw, mediaType)
	if img, ok := m.(v1.Image); ok {
		err = s.addParts(img)
	} else if idx, ok := m.(v1.ImageIndex); ok {
		err = s.addEntries(idx, p)
	}
	return d, err
}

func (s blobSet) addParts(img v1.Image) error {
	m, err := img.Manifest()
	config, cerr := img.RawConfigFile()
	layers, lerr := img.Layers()
	if err := cmp.Or(err, cerr, lerr); err != nil {
		return err
	}
	if got, want := len(layers), len(m.Layers); got != want {
		return hinterr.Damaged("manifest: got %d layers, want %d", got, want)
	}
	s[m.Config.Digest] = static.NewLayer(config, m.Config.MediaType)
	for n, d := range m.Layers {
		// A foreign layer may be only in its own place (image-spec, layer.md, "Non-Distributable Layers").
		if d.MediaType.IsDistributable() || len(d.URLs) == 0 {
			s[d.Digest] = layers[n]
		}
	}
	return nil
}

// addEntries adds all that is in an index. A manifest that the source lists but does not have stays listed.
func (s blobSet) addEntries(idx v1.ImageIndex, p progress.Reporter) error {
	m, err := idx.IndexManifest()
	if err != nil {
		return err
	}
	for _, d := range m.Manifests {
		err := s.addEntry(idx, d, p)
		if errors.Is(err, hinterr.ErrNotFound) {
			p.Note("%v: listed in the index but not in the source: it stays listed", d.Digest)
		} else if err != nil {
			return err
		}
	}
	return nil
}

// addEntry adds an image or an index in an index. Nothing else is in those that builders write.
func (s blobSet) addEntry(idx v1.ImageIndex, d v1.Descriptor, p progress.Reporter) (err error) {
	var m manifest
	if d.MediaType.IsIndex() {
		m, err = idx.ImageIndex(d.Digest)
	} else {
		m, err = idx.Image(d.Digest)
	}
	if err == nil {
		_, err = s.add(m, p)
	}
	return err
}

// fileWriter writes one file of a layout, of size bytes.
type fileWriter func(name string, size int64, content func(io.Writer) error) error

// write writes a layout with the entry d.
func (s blobSet) write(ctx context.Context, d v1.Descriptor, o Options, to fileWriter) error {
	index, err := json.Marshal(v1.IndexManifest{SchemaVersion: 2, MediaType: types.OCIImageIndex, Manifests: []v1.Descriptor{d}})
	if err == nil {
		err = s.writeBlobs(ctx, o, to)
	}
	text := func(name string, data []byte) {
		if err == nil {
			err = to(name, int64(len(data)), func(w io.Writer) error {
				_, err := w.Write(data)
				return err
			})
		}
	}
	text(layoutIndex, index)
	text(layoutFile, []byte(`{"imageLayoutVersion":"`+layoutVersion+`"}`))
	return cmp.Or(err, ctx.Err())
}

// writeBlobs writes the blobs in the order of their digests.
func (s blobSet) writeBlobs(ctx context.Context, o Options, to fileWriter) error {
	byName := func(a, b v1.Hash) int { return cmp.Compare(a.String(), b.String()) }
	for _, digest := range slices.SortedFunc(maps.Keys(s), byName) {
		l := s[digest]
		size, err := l.Size()
		if err == nil {
			err = to(blobName(digest), size, func(w io.Writer) error { return copyBlob(ctx, w, l, size, o) })
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// copyBlob copies a blob; a layer of a source verifies itself.
func copyBlob(ctx context.Context, w io.Writer, l v1.Layer, size int64, o Options) error {
	rc, err := l.Compressed()
	if err != nil {
		return err
	}
	defer rc.Close()
	t, err := l.MediaType()
	digest, derr := l.Digest()
	if err := cmp.Or(err, derr); err != nil {
		return err
	}
	var task progress.Task
	if IsLayer(t) {
		task = o.Progress.Start("write", blob.LayerName(l, digest), size)
		defer task.Done()
	}
	_, err = blob.CopyTo(ctx, w, rc, task)
	return err
}
