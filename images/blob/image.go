// Images and indexes of blobs: every byte that they hand on is verified, unlike with
// go-containerregistry's readers of layouts and archives.

package blob

import (
	"bytes"
	"cmp"
	"encoding/json"
	"sync"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"vfix.dev/vfix/internal/hinterr"
	"vfix.dev/vfix/internal/jsonobject"
)

// MaxNesting is how deep indexes in indexes are followed; nothing in use nests at all.
const MaxNesting = 4

// document is the text of a manifest or index, with its digest and media type.
type document struct {
	v1.Descriptor
	raw []byte
}

// readDocument reads and verifies what d names, and parses it; mediaType is a member of parsed.
func readDocument(b Blobs, d v1.Descriptor, what string, parsed any, mediaType *types.MediaType) (document, error) {
	raw, err := ReadBlob(b, d, what, MaxManifest)
	if err != nil {
		return document{}, err
	}
	if err := json.Unmarshal(raw, parsed); err != nil {
		return document{}, hinterr.Damaged("%s %v: %w", what, d.Digest, jsonobject.InWords(err))
	}
	if mt := *mediaType; mt != "" && d.MediaType != "" && mt != d.MediaType {
		return document{}, hinterr.Damaged("%s %v: got media type %s, want %s as in its descriptor", what, d.Digest, mt, d.MediaType)
	}
	d.MediaType = cmp.Or(*mediaType, d.MediaType)
	return document{d, raw}, nil
}

// Image is an image by its manifest, its config and its layers. It implements v1.Image.
type Image struct {
	Blobs    Blobs // the place of its parts; nil for an edited image
	manifest func() (*parsedManifest, error)
	config   func() ([]byte, error)
	layers   []v1.Layer
}

type parsedManifest struct {
	document
	v1.Manifest
}

// NewStoredImage reads and verifies the manifest that d names.
func NewStoredImage(b Blobs, d v1.Descriptor) (*Image, error) {
	m := &parsedManifest{}
	var err error
	if m.document, err = readDocument(b, d, "manifest", &m.Manifest, &m.Manifest.MediaType); err != nil {
		return nil, err
	}
	m.document.MediaType = cmp.Or(m.document.MediaType, types.OCIManifestSchema1)
	i := &Image{Blobs: b, manifest: func() (*parsedManifest, error) { return m, nil }}
	i.config = sync.OnceValues(func() ([]byte, error) { return ReadBlob(b, m.Config, "config", MaxConfig) })
	// Parsed once, whatever the number of layers that ask.
	ids := sync.OnceValues(func() ([]v1.Hash, error) {
		cf, err := i.ConfigFile()
		if err != nil {
			return nil, err
		}
		if len(cf.RootFS.DiffIDs) < len(m.Layers) {
			return nil, hinterr.Damaged("config %v: got %d diff IDs, want %d, one for each layer", m.Config.Digest, len(cf.RootFS.DiffIDs), len(m.Layers))
		}
		return cf.RootFS.DiffIDs, nil
	})
	for n, d := range m.Layers {
		i.layers = append(i.layers, &StoredLayer{b, d, ids, n})
	}
	return i, nil
}

// MadeImage makes an image of a manifest that is complete except for its config, which is a
// docker one; the other blobs are in b.
func MadeImage(m v1.Manifest, config []byte, b Blobs) (*Image, error) {
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

// NewEditedImage makes an image of another one by editing its manifest, and perhaps its config. layers are in
// the manifest's order, under the media types that it gives them; the manifest is made when somebody asks for
// it: that of an uncompressed image means compressing it.
func NewEditedImage(config []byte, layers []v1.Layer, manifest func() ([]byte, error)) *Image {
	return &Image{
		layers: layers,
		config: func() ([]byte, error) { return config, nil },
		manifest: sync.OnceValues(func() (*parsedManifest, error) {
			raw, err := manifest()
			if err != nil {
				return nil, err
			}
			m := &parsedManifest{document: document{raw: raw}}
			if err := json.Unmarshal(raw, &m.Manifest); err != nil {
				return nil, err
			}
			m.document.MediaType = m.Manifest.MediaType
			m.Digest, m.Size, err = v1.SHA256(bytes.NewReader(raw))
			return m, err
		}),
	}
}

// of gives one fact about an image's manifest.
func of[T any](i *Image, f func(*parsedManifest) T) (v T, err error) {
	m, err := i.manifest()
	if err != nil {
		return v, err
	}
	return f(m), nil
}

func (i *Image) MediaType() (types.MediaType, error) {
	return of(i, func(m *parsedManifest) types.MediaType { return m.document.MediaType })
}

func (i *Image) Size() (int64, error) {
	return of(i, func(m *parsedManifest) int64 { return m.Size })
}

func (i *Image) Digest() (v1.Hash, error) {
	return of(i, func(m *parsedManifest) v1.Hash { return m.Digest })
}

func (i *Image) RawManifest() ([]byte, error) {
	return of(i, func(m *parsedManifest) []byte { return bytes.Clone(m.raw) })
}

func (i *Image) Manifest() (*v1.Manifest, error) {
	return of(i, func(m *parsedManifest) *v1.Manifest { return m.Manifest.DeepCopy() })
}

func (i *Image) ConfigName() (v1.Hash, error)        { return partial.ConfigName(i) }
func (i *Image) ConfigFile() (*v1.ConfigFile, error) { return partial.ConfigFile(i) }
func (i *Image) ConfigLayer() (v1.Layer, error)      { return partial.ConfigLayer(i) }
func (i *Image) Layers() ([]v1.Layer, error)         { return append([]v1.Layer{}, i.layers...), nil }
func (i *Image) RawConfigFile() ([]byte, error) {
	raw, err := i.config()
	return bytes.Clone(raw), err
}

// LayerByDigest finds a layer, or the config as one.
func (i *Image) LayerByDigest(h v1.Hash) (v1.Layer, error) {
	m, err := i.manifest()
	if err != nil {
		return nil, err
	}
	for n, d := range m.Layers {
		if d.Digest == h && n < len(i.layers) {
			return i.layers[n], nil
		}
	}
	if h == m.Config.Digest {
		return i.ConfigLayer()
	}
	return nil, hinterr.Errorf(hinterr.ErrNotFound, "manifest %v: no layer %v", m.Digest, h)
}

func (i *Image) LayerByDiffID(h v1.Hash) (v1.Layer, error) {
	for _, l := range i.layers {
		if id, err := l.DiffID(); err != nil {
			return nil, err
		} else if id == h {
			return l, nil
		}
	}
	return nil, hinterr.Errorf(hinterr.ErrNotFound, "no layer with diff ID %v", h)
}

// storedIndex is an index whose parts are blobs. It implements v1.ImageIndex.
type storedIndex struct {
	document
	blobs  Blobs
	parsed v1.IndexManifest
}

// NewStoredIndex reads and verifies the index that d names.
func NewStoredIndex(b Blobs, d v1.Descriptor) (*storedIndex, error) {
	i := &storedIndex{blobs: b}
	var err error
	i.document, err = readDocument(b, d, "index", &i.parsed, &i.parsed.MediaType)
	i.document.MediaType = cmp.Or(i.document.MediaType, types.OCIImageIndex)
	return i, err
}

func (i *storedIndex) MediaType() (types.MediaType, error)       { return i.document.MediaType, nil }
func (i *storedIndex) Size() (int64, error)                      { return i.document.Size, nil }
func (i *storedIndex) Digest() (v1.Hash, error)                  { return i.document.Digest, nil }
func (i *storedIndex) RawManifest() ([]byte, error)              { return bytes.Clone(i.raw), nil }
func (i *storedIndex) IndexManifest() (*v1.IndexManifest, error) { return i.parsed.DeepCopy(), nil }

// child finds the descriptor of h.
func (i *storedIndex) child(h v1.Hash) (v1.Descriptor, error) {
	for _, d := range i.parsed.Manifests {
		if d.Digest == h {
			return d, nil
		}
	}
	return v1.Descriptor{}, hinterr.Errorf(hinterr.ErrNotFound, "index %v: no manifest %v", i.document.Digest, h)
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
	return &StoredLayer{i.blobs, d, func() ([]v1.Hash, error) { return []v1.Hash{{}}, nil }, 0}, nil
}

// BlobOf gives an entry of an index that is neither image nor index, if the index supports that
// (go-containerregistry's do, without an interface for it).
func BlobOf(idx v1.ImageIndex, h v1.Hash) (v1.Layer, error) {
	if l, ok := idx.(interface {
		Layer(v1.Hash) (v1.Layer, error)
	}); ok {
		return l.Layer(h)
	}
	return nil, hinterr.Errorf(hinterr.ErrNotFound, "no blob %v in the index", h)
}
