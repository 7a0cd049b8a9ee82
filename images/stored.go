package images

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"sync"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// storedImage is an image whose parts are blobs: of a layout, an OCI archive, a docker
// archive. Unlike go-containerregistry's readers of these it verifies every byte it hands
// on. It implements v1.Image.
type storedImage struct {
	blobs  blobs
	desc   v1.Descriptor // of the manifest, as it was found
	raw    []byte        // the manifest
	parsed v1.Manifest
	config func() ([]byte, error)
}

// newStoredImage reads and verifies the manifest that desc names.
func newStoredImage(b blobs, desc v1.Descriptor) (*storedImage, error) {
	raw, err := readBlob(b, desc, "manifest", maxManifest)
	if err != nil {
		return nil, err
	}
	i := &storedImage{blobs: b, desc: desc, raw: raw}
	if err := json.Unmarshal(raw, &i.parsed); err != nil {
		return nil, damaged("manifest %v: %v", desc.Digest, err)
	}
	if mt := i.parsed.MediaType; mt != "" && desc.MediaType != "" && mt != desc.MediaType {
		return nil, damaged("manifest %v: got media type %s, want %s as its descriptor says", desc.Digest, mt, desc.MediaType)
	}
	i.config = sync.OnceValues(func() ([]byte, error) {
		return readBlob(b, i.parsed.Config, "config", maxConfig)
	})
	return i, nil
}

func (i *storedImage) MediaType() (types.MediaType, error) {
	if i.parsed.MediaType != "" {
		return i.parsed.MediaType, nil
	}
	if i.desc.MediaType != "" {
		return i.desc.MediaType, nil
	}
	return types.OCIManifestSchema1, nil
}

func (i *storedImage) Size() (int64, error)                { return int64(len(i.raw)), nil }
func (i *storedImage) Digest() (v1.Hash, error)            { return i.desc.Digest, nil }
func (i *storedImage) Descriptor() (*v1.Descriptor, error) { return i.desc.DeepCopy(), nil }
func (i *storedImage) RawManifest() ([]byte, error)        { return bytes.Clone(i.raw), nil }
func (i *storedImage) Manifest() (*v1.Manifest, error)     { return i.parsed.DeepCopy(), nil }
func (i *storedImage) ConfigName() (v1.Hash, error)        { return i.parsed.Config.Digest, nil }
func (i *storedImage) ConfigFile() (*v1.ConfigFile, error) { return partial.ConfigFile(i) }
func (i *storedImage) RawConfigFile() ([]byte, error)      { return i.config() }
func (i *storedImage) ConfigLayer() (v1.Layer, error)      { return partial.ConfigLayer(i) }
func (i *storedImage) LayerByDiffID(h v1.Hash) (v1.Layer, error) {
	cf, err := i.ConfigFile()
	if err != nil {
		return nil, err
	}
	for n, d := range cf.RootFS.DiffIDs {
		if d == h && n < len(i.parsed.Layers) {
			return &storedLayer{i, n}, nil
		}
	}
	return nil, errorf(ErrNotFound, "manifest %v: no layer with diff ID %v", i.desc.Digest, h)
}

// Layers are in the manifest's order, the base layer first.
func (i *storedImage) Layers() ([]v1.Layer, error) {
	ls := make([]v1.Layer, len(i.parsed.Layers))
	for n := range ls {
		ls[n] = &storedLayer{i, n}
	}
	return ls, nil
}

func (i *storedImage) LayerByDigest(h v1.Hash) (v1.Layer, error) {
	for n := range i.parsed.Layers {
		if i.parsed.Layers[n].Digest == h {
			return &storedLayer{i, n}, nil
		}
	}
	if h == i.parsed.Config.Digest {
		return i.ConfigLayer()
	}
	return nil, errorf(ErrNotFound, "manifest %v: no layer %v", i.desc.Digest, h)
}

// storedLayer is the layer number n of an image, the base layer being 0.
type storedLayer struct {
	image *storedImage
	n     int
}

func (l *storedLayer) desc() v1.Descriptor                 { return l.image.parsed.Layers[l.n] }
func (l *storedLayer) Digest() (v1.Hash, error)            { return l.desc().Digest, nil }
func (l *storedLayer) Size() (int64, error)                { return l.desc().Size, nil }
func (l *storedLayer) MediaType() (types.MediaType, error) { return l.desc().MediaType, nil }
func (l *storedLayer) Descriptor() (*v1.Descriptor, error) { d := l.desc(); return d.DeepCopy(), nil }
func (l *storedLayer) Exists() (bool, error)               { return true, nil }
func (l *storedLayer) Compressed() (io.ReadCloser, error)  { return openBlob(l.image.blobs, l.desc()) }

func (l *storedLayer) DiffID() (v1.Hash, error) {
	cf, err := l.image.ConfigFile()
	if err != nil {
		return v1.Hash{}, err
	}
	if l.n >= len(cf.RootFS.DiffIDs) {
		return v1.Hash{}, damaged("config %v: got %d diff IDs, want %d as there are layers",
			l.image.parsed.Config.Digest, len(cf.RootFS.DiffIDs), len(l.image.parsed.Layers))
	}
	return cf.RootFS.DiffIDs[l.n], nil
}

// Uncompressed ends in an error where the content does not have the diff ID.
func (l *storedLayer) Uncompressed() (io.ReadCloser, error) {
	diffID, err := l.DiffID()
	if err != nil {
		return nil, err
	}
	rc, err := l.Compressed()
	if err != nil {
		return nil, err
	}
	out, _, err := decompress(context.Background(), rc)
	if err != nil {
		rc.Close()
		return nil, fmt.Errorf("layer %v: %w", l.desc().Digest, err)
	}
	return verified(stacked{out, rc}, diffID, -1)
}

// Unverified opens the blob for a caller that verifies it.
func (l *storedLayer) Unverified() (io.ReadCloser, error) {
	rc, _, err := l.image.blobs.open(l.desc().Digest)
	return rc, err
}

// Plain reports that the layer's blob is its uncompressed tar stream.
func (l *storedLayer) Plain() bool {
	diffID, err := l.DiffID()
	return err == nil && diffID == l.desc().Digest
}

// stacked is a stream made from another one; closing it closes both.
type stacked struct {
	io.ReadCloser
	under io.Closer
}

func (s stacked) Close() error {
	s.ReadCloser.Close()
	return s.under.Close()
}

// storedIndex is an index whose parts are blobs. It implements v1.ImageIndex.
type storedIndex struct {
	blobs  blobs
	desc   v1.Descriptor
	raw    []byte
	parsed v1.IndexManifest
}

// newStoredIndex reads and verifies the index that desc names.
func newStoredIndex(b blobs, desc v1.Descriptor) (*storedIndex, error) {
	raw, err := readBlob(b, desc, "index", maxManifest)
	if err != nil {
		return nil, err
	}
	i := &storedIndex{blobs: b, desc: desc, raw: raw}
	if err := json.Unmarshal(raw, &i.parsed); err != nil {
		return nil, damaged("index %v: %v", desc.Digest, err)
	}
	if mt := i.parsed.MediaType; mt != "" && desc.MediaType != "" && mt != desc.MediaType {
		return nil, damaged("index %v: got media type %s, want %s as its descriptor says", desc.Digest, mt, desc.MediaType)
	}
	return i, nil
}

func (i *storedIndex) MediaType() (types.MediaType, error) {
	if i.parsed.MediaType != "" {
		return i.parsed.MediaType, nil
	}
	if i.desc.MediaType != "" {
		return i.desc.MediaType, nil
	}
	return types.OCIImageIndex, nil
}

func (i *storedIndex) Size() (int64, error)                      { return int64(len(i.raw)), nil }
func (i *storedIndex) Digest() (v1.Hash, error)                  { return i.desc.Digest, nil }
func (i *storedIndex) Descriptor() (*v1.Descriptor, error)       { return i.desc.DeepCopy(), nil }
func (i *storedIndex) RawManifest() ([]byte, error)              { return bytes.Clone(i.raw), nil }
func (i *storedIndex) IndexManifest() (*v1.IndexManifest, error) { return i.parsed.DeepCopy(), nil }

// child finds the descriptor of h.
func (i *storedIndex) child(h v1.Hash) (v1.Descriptor, error) {
	for _, d := range i.parsed.Manifests {
		if d.Digest == h {
			return d, nil
		}
	}
	return v1.Descriptor{}, errorf(ErrNotFound, "index %v: no manifest %v", i.desc.Digest, h)
}

func (i *storedIndex) Image(h v1.Hash) (v1.Image, error) {
	d, err := i.child(h)
	if err != nil {
		return nil, err
	}
	return newStoredImage(i.blobs, d)
}

func (i *storedIndex) ImageIndex(h v1.Hash) (v1.ImageIndex, error) {
	d, err := i.child(h)
	if err != nil {
		return nil, err
	}
	return newStoredIndex(i.blobs, d)
}
