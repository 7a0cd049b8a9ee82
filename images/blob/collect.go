// Collecting all blobs of an image or index.

package blob

import (
	"bytes"
	"cmp"
	"errors"
	"io"
	"maps"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/partial"

	"vfix.dev/vfix/internal/hinterr"
	"vfix.dev/vfix/internal/progress"
)

// BlobToWrite is one blob of a layout to write.
type BlobToWrite struct {
	Digest v1.Hash
	Size   int64
	Layer  string // of a layer, its name in messages, see LayerName; "" for other blobs
	From   Blobs  // the place of a layer; nil: not known
	Open   func() (io.ReadCloser, error)
}

// Collection is every blob that an image or index needs, by digest: nothing is read but
// manifests and configs.
type Collection map[v1.Hash]BlobToWrite

// Sorted gives the blobs in the order of their digests.
func (c Collection) Sorted() []BlobToWrite {
	return slices.SortedFunc(maps.Values(c), func(a, b BlobToWrite) int { return strings.Compare(a.Digest.String(), b.Digest.String()) })
}

// AddBytes collects a content that is in memory, under its digest.
func (c Collection) AddBytes(h v1.Hash, data []byte) {
	c[h] = BlobToWrite{Digest: h, Size: int64(len(data)), Open: func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(data)), nil
	}}
}

// AddImage collects an image and returns its descriptor.
func (c Collection) AddImage(img v1.Image) (v1.Descriptor, error) {
	d, err := partial.Descriptor(img)
	if err != nil {
		return v1.Descriptor{}, err
	}
	raw, err := img.RawManifest()
	m, merr := img.Manifest()
	if err := cmp.Or(err, merr); err != nil {
		return *d, err
	}
	config, err := img.RawConfigFile()
	layers, lerr := img.Layers()
	if err := cmp.Or(err, lerr); err != nil {
		return *d, err
	}
	if len(layers) != len(m.Layers) {
		return *d, hinterr.Damaged("manifest %v: got %d layers, want %d", d.Digest, len(layers), len(m.Layers))
	}
	c.AddBytes(d.Digest, raw)
	c.AddBytes(m.Config.Digest, config)
	for n, ld := range m.Layers {
		if !ld.MediaType.IsDistributable() && len(ld.URLs) > 0 {
			continue // to be had from its own place only (image-spec, layer.md)
		}
		l := layers[n]
		c[ld.Digest] = BlobToWrite{ld.Digest, ld.Size, LayerName(l, ld.Digest), From(l), func() (io.ReadCloser, error) { return OpenUnverified(l) }}
	}
	return *d, nil
}

// AddIndex collects an index with all that is in it and returns its descriptor. If a
// layout's index lists a manifest that is missing, it stays listed and is noted.
func (c Collection) AddIndex(idx v1.ImageIndex, p progress.Reporter, depth int) (v1.Descriptor, error) {
	d, err := partial.Descriptor(idx)
	if err != nil {
		return v1.Descriptor{}, err
	}
	if depth < 0 {
		return *d, hinterr.Damaged("index %v: indexes nested more than %d levels deep", d.Digest, MaxNesting)
	}
	raw, err := idx.RawManifest()
	m, merr := idx.IndexManifest()
	if err := cmp.Or(err, merr); err != nil {
		return *d, err
	}
	c.AddBytes(d.Digest, raw)
	for _, e := range m.Manifests {
		if err := c.addEntry(idx, e, p, depth); errors.Is(err, hinterr.ErrNotFound) {
			p.Note("%v: listed in the index and not in the source: left listed", e.Digest)
		} else if err != nil {
			return *d, err
		}
	}
	return *d, nil
}

func (c Collection) addEntry(idx v1.ImageIndex, e v1.Descriptor, p progress.Reporter, depth int) error {
	switch {
	case e.MediaType.IsIndex():
		sub, err := idx.ImageIndex(e.Digest)
		if err != nil {
			return err
		}
		_, err = c.AddIndex(sub, p, depth-1)
		return err
	case e.MediaType.IsImage():
		img, err := idx.Image(e.Digest)
		if err != nil {
			return err
		}
		_, err = c.AddImage(img)
		return err
	}
	l, err := BlobOf(idx, e.Digest)
	if err != nil {
		return err
	}
	c[e.Digest] = BlobToWrite{Digest: e.Digest, Size: e.Size, Open: l.Compressed}
	return nil
}
