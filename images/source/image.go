// Images and indexes whose parts are found by digest: every byte that they hand on is verified, unlike with
// go-containerregistry's readers of layouts and archives.

package source

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"sync"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"vfix.dev/vfix/images/blob"
	"vfix.dev/vfix/internal/hinterr"
)

// store is a place of blobs.
type store interface {
	// open gives the content that a descriptor names, not verified. The error is an ErrNotFound if it is missing.
	open(d v1.Descriptor) (io.ReadCloser, error)
}

// describe makes the descriptor of a text, which has it as its data (image-spec, descriptor.md, "Embedded Content").
func describe(t types.MediaType, text []byte) v1.Descriptor {
	digest, size, _ := v1.SHA256(bytes.NewReader(text)) // a reader of memory never errs
	return v1.Descriptor{MediaType: t, Digest: digest, Size: size, Data: text}
}

// read reads and verifies all that a descriptor names, at most limit bytes; what is its name in errors.
func read(s store, d v1.Descriptor, what string, limit int64) ([]byte, error) {
	if d.Size < 0 || d.Size > limit {
		return nil, hinterr.Damaged("%s %v: got %d bytes, want at most %d", what, d.Digest, d.Size, limit)
	}
	var data []byte
	rc, err := (&layer{from: s, desc: d}).Compressed()
	if err == nil {
		defer rc.Close()
		data, err = io.ReadAll(rc)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	return data, nil
}

// readDocument reads a manifest or index into parsed and returns its text. Its own media type, *t, must be that of
// the descriptor, which gets it if it has none.
func readDocument(s store, d *v1.Descriptor, what string, parsed any, t *types.MediaType) ([]byte, error) {
	raw, err := read(s, *d, what, blob.MaxManifest)
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(raw, parsed); err != nil {
		return nil, hinterr.Damaged("%s %v: %v", what, d.Digest, err)
	}
	if *t != "" && d.MediaType != "" && *t != d.MediaType {
		return nil, hinterr.Damaged("%s %v: got media type %s, want %s as in its descriptor", what, d.Digest, *t, d.MediaType)
	}
	d.MediaType = cmp.Or(*t, d.MediaType)
	return raw, nil
}

// image is an image by its manifest, its config and its layers. It implements v1.Image.
type image struct {
	desc     v1.Descriptor
	raw      []byte
	manifest v1.Manifest
	config   func() ([]byte, error)
	layers   []v1.Layer
}

// storedImage reads and verifies the manifest that d names. Its config, without one here, and its layers are read when
// they are needed.
func storedImage(s store, d v1.Descriptor, config []byte) (*image, error) {
	i := &image{desc: d}
	var err error
	if i.raw, err = readDocument(s, &i.desc, "manifest", &i.manifest, &i.manifest.MediaType); err != nil {
		return nil, err
	}
	i.desc.MediaType = cmp.Or(i.desc.MediaType, types.OCIManifestSchema1)
	i.config = sync.OnceValues(func() ([]byte, error) {
		if config != nil {
			return config, nil
		}
		return read(s, i.manifest.Config, "config", blob.MaxConfig)
	})
	for _, d := range i.manifest.Layers {
		i.layers = append(i.layers, mountable(&layer{from: s, desc: d, of: i}))
	}
	return i, nil
}

// madeImage makes an image of a docker config and layers, which are in s; t is the media type of its manifest.
func madeImage(t types.MediaType, layers []v1.Descriptor, config []byte, s store) (*image, error) {
	m := v1.Manifest{SchemaVersion: 2, MediaType: t, Config: describe(types.DockerConfigJSON, config), Layers: layers}
	m.Config.Data = nil
	raw, err := json.Marshal(m)
	if err != nil {
		return nil, err
	}
	return storedImage(s, describe(t, raw), config)
}

// EditedImage makes an image of another one by editing its manifest and config. layers are in the manifest's order, and
// get the media types that it has for them.
func EditedImage(manifest, config []byte, layers []v1.Layer) (v1.Image, error) {
	i, err := storedImage(nil, describe("", manifest), config)
	if err != nil {
		return nil, err
	}
	for n, d := range i.manifest.Layers {
		i.layers[n] = blob.AsType(layers[n], d.MediaType)
	}
	return i, nil
}

func (i *image) MediaType() (types.MediaType, error) { return i.desc.MediaType, nil }
func (i *image) Size() (int64, error)                { return i.desc.Size, nil }
func (i *image) Digest() (v1.Hash, error)            { return i.desc.Digest, nil }
func (i *image) RawManifest() ([]byte, error)        { return bytes.Clone(i.raw), nil }
func (i *image) Manifest() (*v1.Manifest, error)     { return i.manifest.DeepCopy(), nil }
func (i *image) ConfigName() (v1.Hash, error)        { return i.manifest.Config.Digest, nil }
func (i *image) ConfigFile() (*v1.ConfigFile, error) { return partial.ConfigFile(i) }
func (i *image) RawConfigFile() ([]byte, error)      { return i.config() }
func (i *image) Layers() ([]v1.Layer, error)         { return slices.Clone(i.layers), nil }

func (i *image) LayerByDigest(h v1.Hash) (v1.Layer, error) {
	for n, d := range i.manifest.Layers {
		if d.Digest == h {
			return i.layers[n], nil
		}
	}
	return nil, hinterr.Errorf(hinterr.ErrNotFound, "manifest %v: no layer %v", i.desc.Digest, h)
}

func (i *image) LayerByDiffID(h v1.Hash) (v1.Layer, error) {
	digest, err := partial.DiffIDToBlob(i, h)
	if err != nil {
		return nil, err
	}
	return i.LayerByDigest(digest)
}

// layer is a layer in a store. It implements v1.Layer.
type layer struct {
	from store
	desc v1.Descriptor
	of   *image
}

func (l *layer) Digest() (v1.Hash, error)            { return l.desc.Digest, nil }
func (l *layer) DiffID() (v1.Hash, error)            { return partial.BlobToDiffID(l.of, l.desc.Digest) }
func (l *layer) Size() (int64, error)                { return l.desc.Size, nil }
func (l *layer) MediaType() (types.MediaType, error) { return l.desc.MediaType, nil }

// Compressed opens the blob. Reading it to its end proves its digest and size.
func (l *layer) Compressed() (io.ReadCloser, error) {
	rc := io.NopCloser(bytes.NewReader(l.desc.Data))
	if l.desc.Data == nil {
		var err error
		if rc, err = l.from.open(l.desc); err != nil {
			return nil, err
		}
	}
	return blob.Verified(rc, l.desc.Digest, l.desc.Size)
}

// Uncompressed opens the content. Reading it to its end proves its diff ID.
func (l *layer) Uncompressed() (io.ReadCloser, error) {
	return blob.OpenLayer(context.Background(), l, nil)
}

// index is an index in a store. It implements v1.ImageIndex.
type index struct {
	from   store
	desc   v1.Descriptor
	raw    []byte
	parsed v1.IndexManifest
	// Of an index in which an image was replaced: the new image, and the attestations that were omitted.
	img     v1.Image
	omitted []v1.Descriptor
}

// storedIndex reads and verifies the index that d names.
func storedIndex(s store, d v1.Descriptor) (*index, error) {
	i := &index{from: s, desc: d}
	var err error
	i.raw, err = readDocument(s, &i.desc, "index", &i.parsed, &i.parsed.MediaType)
	i.desc.MediaType = cmp.Or(i.desc.MediaType, types.OCIImageIndex)
	return i, err
}

func (i *index) MediaType() (types.MediaType, error)       { return i.desc.MediaType, nil }
func (i *index) Size() (int64, error)                      { return i.desc.Size, nil }
func (i *index) Digest() (v1.Hash, error)                  { return i.desc.Digest, nil }
func (i *index) RawManifest() ([]byte, error)              { return bytes.Clone(i.raw), nil }
func (i *index) IndexManifest() (*v1.IndexManifest, error) { return i.parsed.DeepCopy(), nil }

func (i *index) entry(h v1.Hash) (v1.Descriptor, error) {
	for _, d := range i.parsed.Manifests {
		if d.Digest == h {
			return d, nil
		}
	}
	return v1.Descriptor{}, hinterr.Errorf(hinterr.ErrNotFound, "index %v: no manifest %v", i.desc.Digest, h)
}

func (i *index) Image(h v1.Hash) (v1.Image, error) {
	if i.img != nil {
		if digest, err := i.img.Digest(); err != nil || h == digest {
			return i.img, err
		}
	}
	d, err := i.entry(h)
	if err != nil {
		return nil, err
	}
	return storedImage(i.from, d, nil)
}

func (i *index) ImageIndex(h v1.Hash) (v1.ImageIndex, error) {
	d, err := i.entry(h)
	if err != nil {
		return nil, err
	}
	return storedIndex(i.from, d)
}
