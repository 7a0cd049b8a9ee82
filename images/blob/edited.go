// Images under another manifest.

package blob

import (
	"bytes"
	"io"
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

// Layers under another media type, and the layer inside such a wrapper.

// retyped is a layer under another media type.
type retyped struct {
	v1.Layer
	mediaType types.MediaType
}

// AsType is a layer under another media type.
func AsType(l v1.Layer, t types.MediaType) v1.Layer { return retyped{l, t} }

func (r retyped) MediaType() (types.MediaType, error) { return r.mediaType, nil }

// Unwrap gives the layer under its own media type.
func (r retyped) Unwrap() v1.Layer { return r.Layer }

// Underlying takes the wrappers off a layer that only give it another media type.
func Underlying(l v1.Layer) v1.Layer {
	for {
		w, ok := l.(interface{ Unwrap() v1.Layer })
		if !ok {
			return l
		}
		l = w.Unwrap()
	}
}

// unverifiedLayer is a layer that checks what it gives out, and can leave that to its reader.
type unverifiedLayer interface {
	// Unverified opens the blob for a caller that verifies it.
	Unverified() (io.ReadCloser, error)
}

// OpenUnverified opens a layer's blob for a caller that verifies it, so that it is not
// hashed twice.
func OpenUnverified(l v1.Layer) (io.ReadCloser, error) {
	l = Underlying(l)
	if u, ok := l.(unverifiedLayer); ok {
		return u.Unverified()
	}
	return l.Compressed()
}

// MaxNesting is how deep indexes in indexes are followed; nothing in use nests at all.
const MaxNesting = 4
