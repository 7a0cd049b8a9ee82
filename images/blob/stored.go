// Images whose parts are blobs of a layout or archive; every byte is verified.

package blob

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

	"vfix.dev/vfix/internal/hinterr"
)

// StoredImage is an image whose parts are blobs: of a layout, an OCI archive, a docker
// archive, a registry. Unlike go-containerregistry's readers of these it verifies every byte it hands
// on. It implements v1.Image.
type StoredImage struct {
	Blobs  Blobs
	desc   v1.Descriptor // of the manifest, as it was found
	raw    []byte        // the manifest
	Parsed v1.Manifest
	config func() ([]byte, error)
	// diffIDs are those of the config: parsed once, whatever the number of layers that ask.
	diffIDs func() ([]v1.Hash, error)
}

// MadeImage makes an image of a manifest that is complete except for its config, which is a
// docker one; the other blobs are in b.
func MadeImage(m v1.Manifest, config []byte, b Blobs) (*StoredImage, error) {
	id, size, err := v1.SHA256(bytes.NewReader(config))
	if err != nil {
		return nil, err
	}
	m.Config = v1.Descriptor{MediaType: types.DockerConfigJSON, Size: size, Digest: id}
	raw, err := json.Marshal(m)
	if err != nil {
		return nil, err
	}
	digest, size, err := v1.SHA256(bytes.NewReader(raw))
	if err != nil {
		return nil, err
	}
	return NewStoredImage(MemBlobs{Data: map[v1.Hash][]byte{digest: raw, id: config}, Next: b},
		v1.Descriptor{MediaType: m.MediaType, Size: size, Digest: digest})
}

// NewStoredImage reads and verifies the manifest that desc names.
func NewStoredImage(b Blobs, desc v1.Descriptor) (*StoredImage, error) {
	raw, err := ReadBlob(b, desc, "manifest", MaxManifest)
	if err != nil {
		return nil, err
	}
	i := &StoredImage{Blobs: b, desc: desc, raw: raw}
	if err := json.Unmarshal(raw, &i.Parsed); err != nil {
		return nil, hinterr.Damaged("manifest %v: %v", desc.Digest, err)
	}
	if mt := i.Parsed.MediaType; mt != "" && desc.MediaType != "" && mt != desc.MediaType {
		return nil, hinterr.Damaged("manifest %v: got media type %s, want %s as its descriptor says", desc.Digest, mt, desc.MediaType)
	}
	i.config = sync.OnceValues(func() ([]byte, error) {
		return ReadBlob(b, i.Parsed.Config, "config", MaxConfig)
	})
	i.diffIDs = sync.OnceValues(func() ([]v1.Hash, error) {
		cf, err := i.ConfigFile()
		if err != nil {
			return nil, err
		}
		return cf.RootFS.DiffIDs, nil
	})
	return i, nil
}

func (i *StoredImage) MediaType() (types.MediaType, error) {
	if i.Parsed.MediaType != "" {
		return i.Parsed.MediaType, nil
	}
	if i.desc.MediaType != "" {
		return i.desc.MediaType, nil
	}
	return types.OCIManifestSchema1, nil
}

func (i *StoredImage) Size() (int64, error)                { return int64(len(i.raw)), nil }
func (i *StoredImage) Digest() (v1.Hash, error)            { return i.desc.Digest, nil }
func (i *StoredImage) Descriptor() (*v1.Descriptor, error) { return i.desc.DeepCopy(), nil }
func (i *StoredImage) RawManifest() ([]byte, error)        { return bytes.Clone(i.raw), nil }
func (i *StoredImage) Manifest() (*v1.Manifest, error)     { return i.Parsed.DeepCopy(), nil }
func (i *StoredImage) ConfigName() (v1.Hash, error)        { return i.Parsed.Config.Digest, nil }
func (i *StoredImage) ConfigFile() (*v1.ConfigFile, error) { return partial.ConfigFile(i) }
func (i *StoredImage) RawConfigFile() ([]byte, error)      { return i.config() }
func (i *StoredImage) ConfigLayer() (v1.Layer, error)      { return partial.ConfigLayer(i) }
func (i *StoredImage) LayerByDiffID(h v1.Hash) (v1.Layer, error) {
	ids, err := i.diffIDs()
	if err != nil {
		return nil, err
	}
	for n, d := range ids {
		if d == h && n < len(i.Parsed.Layers) {
			return &StoredLayer{i, n}, nil
		}
	}
	return nil, hinterr.Errorf(hinterr.ErrNotFound, "manifest %v: no layer with diff ID %v", i.desc.Digest, h)
}

// Layers are in the manifest's order, the base layer first.
func (i *StoredImage) Layers() ([]v1.Layer, error) {
	ls := make([]v1.Layer, len(i.Parsed.Layers))
	for n := range ls {
		ls[n] = &StoredLayer{i, n}
	}
	return ls, nil
}

func (i *StoredImage) LayerByDigest(h v1.Hash) (v1.Layer, error) {
	for n := range i.Parsed.Layers {
		if i.Parsed.Layers[n].Digest == h {
			return &StoredLayer{i, n}, nil
		}
	}
	if h == i.Parsed.Config.Digest {
		return i.ConfigLayer()
	}
	return nil, hinterr.Errorf(hinterr.ErrNotFound, "manifest %v: no layer %v", i.desc.Digest, h)
}

// StoredLayer is the layer number n of an image, the base layer being 0.
type StoredLayer struct {
	image *StoredImage
	n     int
}

func (l *StoredLayer) desc() v1.Descriptor                 { return l.image.Parsed.Layers[l.n] }
func (l *StoredLayer) Digest() (v1.Hash, error)            { return l.desc().Digest, nil }
func (l *StoredLayer) Size() (int64, error)                { return l.desc().Size, nil }
func (l *StoredLayer) MediaType() (types.MediaType, error) { return l.desc().MediaType, nil }
func (l *StoredLayer) Descriptor() (*v1.Descriptor, error) { d := l.desc(); return d.DeepCopy(), nil }
func (l *StoredLayer) Exists() (bool, error)               { return true, nil }
func (l *StoredLayer) Compressed() (io.ReadCloser, error)  { return openBlob(l.image.Blobs, l.desc()) }

func (l *StoredLayer) DiffID() (v1.Hash, error) {
	ids, err := l.image.diffIDs()
	if err != nil {
		return v1.Hash{}, err
	}
	if l.n >= len(ids) {
		return v1.Hash{}, hinterr.Damaged("config %v: got %d diff IDs, want %d as there are layers",
			l.image.Parsed.Config.Digest, len(ids), len(l.image.Parsed.Layers))
	}
	return ids[l.n], nil
}

// Uncompressed ends in an error where the content does not have the diff ID.
func (l *StoredLayer) Uncompressed() (io.ReadCloser, error) {
	diffID, err := l.DiffID()
	if err != nil {
		return nil, err
	}
	rc, err := l.Compressed()
	if err != nil {
		return nil, err
	}
	out, _, err := Decompress(context.Background(), rc)
	if err != nil {
		rc.Close()
		return nil, fmt.Errorf("layer %v: %w", l.desc().Digest, err)
	}
	return Verified(Stacked{out, rc}, diffID, -1)
}

// Unverified opens the blob for a caller that verifies it.
func (l *StoredLayer) Unverified() (io.ReadCloser, error) {
	return openSized(l.image.Blobs, l.desc())
}

// From is where the layer's blob is.
func (l *StoredLayer) From() Blobs { return l.image.Blobs }

// Plain reports that the layer's blob is its uncompressed tar stream.
func (l *StoredLayer) Plain() bool {
	diffID, err := l.DiffID()
	return err == nil && diffID == l.desc().Digest
}

// Stacked is a stream made from another one; closing it closes both.
type Stacked struct {
	io.ReadCloser
	Under io.Closer
}

func (s Stacked) Close() error {
	s.ReadCloser.Close()
	return s.Under.Close()
}

// storedIndex is an index whose parts are blobs. It implements v1.ImageIndex.
type storedIndex struct {
	blobs  Blobs
	desc   v1.Descriptor
	raw    []byte
	parsed v1.IndexManifest
}

// NewStoredIndex reads and verifies the index that desc names.
func NewStoredIndex(b Blobs, desc v1.Descriptor) (*storedIndex, error) {
	raw, err := ReadBlob(b, desc, "index", MaxManifest)
	if err != nil {
		return nil, err
	}
	i := &storedIndex{blobs: b, desc: desc, raw: raw}
	if err := json.Unmarshal(raw, &i.parsed); err != nil {
		return nil, hinterr.Damaged("index %v: %v", desc.Digest, err)
	}
	if mt := i.parsed.MediaType; mt != "" && desc.MediaType != "" && mt != desc.MediaType {
		return nil, hinterr.Damaged("index %v: got media type %s, want %s as its descriptor says", desc.Digest, mt, desc.MediaType)
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
	return v1.Descriptor{}, hinterr.Errorf(hinterr.ErrNotFound, "index %v: no manifest %v", i.desc.Digest, h)
}

func (i *storedIndex) Image(h v1.Hash) (v1.Image, error) {
	d, err := i.child(h)
	if err != nil {
		return nil, err
	}
	return NewStoredImage(i.blobs, d)
}

func (i *storedIndex) ImageIndex(h v1.Hash) (v1.ImageIndex, error) {
	d, err := i.child(h)
	if err != nil {
		return nil, err
	}
	return NewStoredIndex(i.blobs, d)
}

// Layer gives what is neither image nor index, as a blob.
func (i *storedIndex) Layer(h v1.Hash) (v1.Layer, error) {
	d, err := i.child(h)
	if err != nil {
		return nil, err
	}
	noIDs := func() ([]v1.Hash, error) { return nil, nil }
	return &StoredLayer{&StoredImage{Blobs: i.blobs, Parsed: v1.Manifest{Layers: []v1.Descriptor{d}}, diffIDs: noIDs}, 0}, nil
}
