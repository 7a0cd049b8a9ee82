package images

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/klauspost/compress/gzip"
)

// ociType is the OCI media type for what a docker media type names (image-spec, media-types.md,
// "Compatibility Matrix").
var ociType = map[types.MediaType]types.MediaType{
	types.DockerManifestSchema2:   types.OCIManifestSchema1,
	types.DockerConfigJSON:        types.OCIConfigJSON,
	types.DockerLayer:             types.OCILayer,
	types.DockerUncompressedLayer: types.OCIUncompressedLayer,
	types.DockerForeignLayer:      types.OCIRestrictedLayer,
}

// portable makes an image fit to leave the machine. Layers that a daemon or docker archive
// held uncompressed are compressed, into files in temp, a folder that must outlive the
// result; with oci the docker media types become OCI's: umoci reads no others in a layout.
// An image that needs neither is returned as it is.
func portable(ctx context.Context, img v1.Image, oci bool, temp string, p Progress) (v1.Image, error) {
	m, err := img.Manifest()
	if err != nil {
		return nil, err
	}
	layers, err := img.Layers()
	if err != nil {
		return nil, err
	}
	if len(layers) != len(m.Layers) {
		return nil, damaged("manifest: got %d layers, want %d", len(layers), len(m.Layers))
	}
	m = m.DeepCopy()
	changed := false
	for n := range m.Layers {
		d := &m.Layers[n]
		if d.MediaType == types.DockerUncompressedLayer {
			packed, err := pack(ctx, layers[n], temp, p)
			if err != nil {
				return nil, fmt.Errorf("layer %v: %w", d.Digest, err)
			}
			layers[n], changed = packed, true
			d.MediaType, d.Digest, d.Size = types.DockerLayer, packed.digest, packed.size
			if m.MediaType == types.OCIManifestSchema1 {
				d.MediaType = types.OCILayer
			}
		}
	}
	if oci {
		if mt, err := img.MediaType(); err != nil {
			return nil, err
		} else if to := ociType[mt]; to != "" {
			m.MediaType, changed = to, true
		}
		for _, d := range append([]*v1.Descriptor{&m.Config}, pointers(m.Layers)...) {
			if to := ociType[d.MediaType]; to != "" {
				d.MediaType, changed = to, true
			}
		}
	}
	if !changed {
		return img, nil
	}
	raw, err := json.Marshal(m)
	if err != nil {
		return nil, err
	}
	return &convertedImage{Image: img, raw: raw, parsed: m, layers: layers}, nil
}

func pointers(ds []v1.Descriptor) []*v1.Descriptor {
	ps := make([]*v1.Descriptor, len(ds))
	for n := range ds {
		ps[n] = &ds[n]
	}
	return ps
}

// convertedImage is an image under a new manifest, with the same config.
type convertedImage struct {
	v1.Image
	raw    []byte
	parsed *v1.Manifest
	layers []v1.Layer
}

func (c *convertedImage) MediaType() (types.MediaType, error) { return c.parsed.MediaType, nil }
func (c *convertedImage) Size() (int64, error)                { return int64(len(c.raw)), nil }
func (c *convertedImage) Digest() (v1.Hash, error)            { return partial.Digest(c) }
func (c *convertedImage) Manifest() (*v1.Manifest, error)     { return c.parsed.DeepCopy(), nil }
func (c *convertedImage) RawManifest() ([]byte, error)        { return bytes.Clone(c.raw), nil }

func (c *convertedImage) Layers() ([]v1.Layer, error) {
	ls := make([]v1.Layer, len(c.layers))
	for n, l := range c.layers {
		ls[n] = asType(l, c.parsed.Layers[n].MediaType)
	}
	return ls, nil
}

func (c *convertedImage) LayerByDigest(h v1.Hash) (v1.Layer, error) {
	for n, d := range c.parsed.Layers {
		if d.Digest == h {
			return asType(c.layers[n], d.MediaType), nil
		}
	}
	return c.Image.LayerByDigest(h)
}

// retyped is a layer under another media type.
type retyped struct {
	v1.Layer
	mediaType types.MediaType
}

// asType is a layer under another media type.
func asType(l v1.Layer, t types.MediaType) v1.Layer { return retyped{l, t} }

func (r retyped) MediaType() (types.MediaType, error) { return r.mediaType, nil }

// Unwrap gives the layer under its own media type.
func (r retyped) Unwrap() v1.Layer { return r.Layer }

// bare takes the wrappers off a layer that only give it another media type.
func bare(l v1.Layer) v1.Layer {
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

// openUnverified opens a layer's blob for a caller that verifies it, so that it is not
// hashed twice.
func openUnverified(l v1.Layer) (io.ReadCloser, error) {
	l = bare(l)
	if u, ok := l.(unverifiedLayer); ok {
		return u.Unverified()
	}
	return l.Compressed()
}

// packedLayer is a layer compressed into a file.
type packedLayer struct {
	path           string
	digest, diffID v1.Hash
	size           int64 // bytes, compressed
}

func (l *packedLayer) Digest() (v1.Hash, error)            { return l.digest, nil }
func (l *packedLayer) DiffID() (v1.Hash, error)            { return l.diffID, nil }
func (l *packedLayer) Size() (int64, error)                { return l.size, nil }
func (l *packedLayer) MediaType() (types.MediaType, error) { return types.DockerLayer, nil }
func (l *packedLayer) Compressed() (io.ReadCloser, error)  { return os.Open(l.path) }

func (l *packedLayer) Uncompressed() (io.ReadCloser, error) {
	f, err := os.Open(l.path)
	if err != nil {
		return nil, err
	}
	r, err := gzip.NewReader(f)
	if err != nil {
		f.Close()
		return nil, err
	}
	return stacked{r, f}, nil
}

// pack compresses a layer into a file in the folder temp. The same layer gives the same
// bytes: the gzip header has neither a name nor a time.
func pack(ctx context.Context, l v1.Layer, temp string, p Progress) (*packedLayer, error) {
	diffID, err := l.DiffID()
	if err != nil {
		return nil, err
	}
	size, err := l.Size()
	if err != nil {
		return nil, err
	}
	in, err := l.Uncompressed()
	if err != nil {
		return nil, err
	}
	defer in.Close()
	f, err := os.CreateTemp(temp, "layer-")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	task := p.Start("write", shortHash(diffID), size)
	defer task.Done()
	sum := sha256.New()
	z, err := gzip.NewWriterLevel(io.MultiWriter(f, sum), packLevel)
	if err != nil {
		return nil, err
	}
	if _, err := copyTo(ctx, z, in, task); err != nil {
		return nil, err
	}
	if err := errors.Join(z.Close(), f.Sync()); err != nil {
		return nil, err
	}
	fi, err := f.Stat()
	if err != nil {
		return nil, err
	}
	return &packedLayer{
		path: f.Name(), diffID: diffID, size: fi.Size(),
		digest: v1.Hash{Algorithm: "sha256", Hex: hex.EncodeToString(sum.Sum(nil))},
	}, nil
}

// packLevel is half the work of gzip's default level, 6, for 2 % more bytes, measured on an
// old userland.
const packLevel = 3
