// Making an image fit for another medium: layers are compressed, media types become OCI's.

package media

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/klauspost/compress/gzip"

	"vfix.dev/vfix/images/blob"
	"vfix.dev/vfix/internal/hinterr"
	"vfix.dev/vfix/internal/progress"
)

// portable makes an image fit to leave the machine. Layers that a daemon or docker archive
// held uncompressed are compressed, into files in temp, a folder that must outlive the
// result; with oci the docker media types become OCI's: umoci reads no others in a layout.
// An image that needs neither is returned as it is.
func portable(ctx context.Context, img v1.Image, oci bool, temp string, p progress.Reporter) (v1.Image, error) {
	m, err := img.Manifest()
	if err != nil {
		return nil, err
	}
	layers, err := img.Layers()
	if err != nil {
		return nil, err
	}
	if len(layers) != len(m.Layers) {
		return nil, hinterr.Damaged("manifest: got %d layers, want %d", len(layers), len(m.Layers))
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
		} else if to := OCIName(mt); to != mt {
			m.MediaType, changed = to, true
		}
		for _, d := range append([]*v1.Descriptor{&m.Config}, pointers(m.Layers)...) {
			if to := OCIName(d.MediaType); to != d.MediaType {
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
	config, err := img.RawConfigFile()
	if err != nil {
		return nil, err
	}
	for n, d := range m.Layers {
		layers[n] = blob.AsType(layers[n], d.MediaType)
	}
	return blob.NewEditedImage(config, layers, func() ([]byte, error) { return raw, nil }), nil
}

func pointers(ds []v1.Descriptor) []*v1.Descriptor {
	ps := make([]*v1.Descriptor, len(ds))
	for n := range ds {
		ps[n] = &ds[n]
	}
	return ps
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
	return blob.Stacked{ReadCloser: r, Under: f}, nil
}

// pack compresses a layer into a file in the folder temp. The same layer gives the same
// bytes: the gzip header has neither a name nor a time.
func pack(ctx context.Context, l v1.Layer, temp string, p progress.Reporter) (*packedLayer, error) {
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
	task := p.Start("write", blob.ShortHash(diffID), size)
	defer task.Done()
	sum := sha256.New()
	z, err := gzip.NewWriterLevel(io.MultiWriter(f, sum), packLevel)
	if err != nil {
		return nil, err
	}
	if _, err := blob.CopyTo(ctx, z, in, task); err != nil {
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
