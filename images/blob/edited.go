// Images under another manifest.

package blob

import (
	"bytes"
	"sync"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"vfix.dev/vfix/internal/hinterr"
)

// EditedImage is an image made of another one by editing its manifest, and perhaps its config: with
// the layers that the new manifest lists. It implements v1.Image.
type EditedImage struct {
	config   []byte
	layers   []v1.Layer
	manifest func() ([]byte, error)
}

// NewEditedImage makes one. layers are in the manifest's order, under the media types that it gives them;
// the manifest is made when somebody asks for it: that of an image that comes uncompressed means
// compressing it.
func NewEditedImage(config []byte, layers []v1.Layer, manifest func() ([]byte, error)) *EditedImage {
	return &EditedImage{config, layers, sync.OnceValues(manifest)}
}

func (e *EditedImage) RawManifest() ([]byte, error)        { return e.manifest() }
func (e *EditedImage) Manifest() (*v1.Manifest, error)     { return partial.Manifest(e) }
func (e *EditedImage) Size() (int64, error)                { return partial.Size(e) }
func (e *EditedImage) Digest() (v1.Hash, error)            { return partial.Digest(e) }
func (e *EditedImage) RawConfigFile() ([]byte, error)      { return bytes.Clone(e.config), nil }
func (e *EditedImage) ConfigFile() (*v1.ConfigFile, error) { return partial.ConfigFile(e) }
func (e *EditedImage) ConfigName() (v1.Hash, error)        { return partial.ConfigName(e) }
func (e *EditedImage) Layers() ([]v1.Layer, error)         { return append([]v1.Layer{}, e.layers...), nil }
func (e *EditedImage) ConfigLayer() (v1.Layer, error) {
	return partial.ConfigLayer(struct{ partial.WithRawConfigFile }{e})
}

func (e *EditedImage) MediaType() (types.MediaType, error) {
	m, err := e.Manifest()
	if err != nil {
		return "", err
	}
	return m.MediaType, nil
}

func (e *EditedImage) LayerByDigest(h v1.Hash) (v1.Layer, error) {
	if name, err := e.ConfigName(); err == nil && h == name {
		return e.ConfigLayer()
	}
	m, err := e.Manifest()
	if err != nil {
		return nil, err
	}
	for n, d := range m.Layers {
		if d.Digest == h && n < len(e.layers) {
			return e.layers[n], nil
		}
	}
	return nil, hinterr.Errorf(hinterr.ErrNotFound, "no layer %v", h)
}

func (e *EditedImage) LayerByDiffID(h v1.Hash) (v1.Layer, error) {
	for _, l := range e.layers {
		if id, err := l.DiffID(); err == nil && id == h {
			return l, nil
		}
	}
	return nil, hinterr.Errorf(hinterr.ErrNotFound, "no layer with diff ID %v", h)
}
