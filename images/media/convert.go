// Making an image fit for another medium: layers are compressed, media types become OCI's.

package media

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"vfix.dev/vfix/images/blob"
	"vfix.dev/vfix/internal/hinterr"
	"vfix.dev/vfix/internal/jsonobject"
	"vfix.dev/vfix/internal/progress"
)

// portable makes an image fit to leave the machine. Layers that a daemon or docker archive
// held uncompressed are compressed; with oci the docker media types become OCI's: umoci reads no others
// in a layout. An image that needs neither is returned as it is. done releases the resources of the result.
func portable(ctx context.Context, img v1.Image, oci bool, p progress.Reporter) (_ v1.Image, done func(), err error) {
	var made []*blob.PackedLayer
	release := func() {
		for _, l := range made {
			l.Close()
		}
	}
	defer func() {
		if err != nil {
			release()
		}
	}()
	m, err := img.Manifest()
	layers, lerr := img.Layers()
	if err = cmp.Or(err, lerr); err != nil {
		return nil, nil, err
	}
	if len(layers) != len(m.Layers) {
		return nil, nil, hinterr.Damaged("manifest: got %d layers, want %d", len(layers), len(m.Layers))
	}
	m = m.DeepCopy()
	changed := false
	for n := range m.Layers {
		d := &m.Layers[n]
		if d.MediaType == types.DockerUncompressedLayer {
			packed, err := pack(ctx, layers[n], p)
			if err != nil {
				return nil, nil, fmt.Errorf("layer %v: %w", d.Digest, err)
			}
			made = append(made, packed)
			layers[n], changed = packed, true
			d.MediaType, d.Digest, d.Size = types.DockerLayer, packed.PackedDigest, packed.PackedSize
			if m.MediaType == types.OCIManifestSchema1 {
				d.MediaType = types.OCILayer
			}
		}
	}
	if oci {
		if m.MediaType, err = img.MediaType(); err != nil {
			return nil, nil, err
		}
		rename := func(t *types.MediaType) {
			to := OCIName(*t)
			*t, changed = to, changed || to != *t
		}
		rename(&m.MediaType)
		rename(&m.Config.MediaType)
		for n := range m.Layers {
			rename(&m.Layers[n].MediaType)
		}
	}
	if !changed {
		return img, release, nil
	}
	raw, err := withDescriptors(img, m)
	if err != nil {
		return nil, nil, fmt.Errorf("manifest: %w", err)
	}
	config, err := img.RawConfigFile()
	if err != nil {
		return nil, nil, err
	}
	for n, d := range m.Layers {
		layers[n] = blob.AsType(layers[n], d.MediaType)
	}
	return blob.NewEditedImage(config, layers, func() ([]byte, error) { return raw, nil }), release, nil
}

// withDescriptors is the manifest of an image with the media types of m, and its layers' digests and sizes. All other members
// keep their bytes.
func withDescriptors(img v1.Image, m *v1.Manifest) ([]byte, error) {
	raw, err := img.RawManifest()
	if err != nil {
		return nil, err
	}
	var o jsonobject.Object
	if err := json.Unmarshal(raw, &o); err != nil {
		return nil, err
	}
	if m.MediaType != "" {
		o.Set(map[string]any{"mediaType": m.MediaType})
	}
	if err := jsonobject.Edit(o, "config.mediaType", func(t *types.MediaType) error {
		*t = m.Config.MediaType
		return nil
	}); err != nil {
		return nil, err
	}
	if err := jsonobject.Edit(o, "layers", func(all *[]jsonobject.Object) error {
		for n, l := range *all {
			d := m.Layers[n]
			if l == nil {
				return hinterr.Damaged("layer %d: null", n)
			}
			l.Set(map[string]any{"mediaType": d.MediaType, "digest": d.Digest, "size": d.Size})
		}
		return nil
	}); err != nil {
		return nil, err
	}
	return jsonobject.Encode(o)
}

func pack(ctx context.Context, l v1.Layer, p progress.Reporter) (*blob.PackedLayer, error) {
	diffID, err := l.DiffID()
	size, serr := l.Size()
	if err := cmp.Or(err, serr); err != nil {
		return nil, err
	}
	in, err := l.Uncompressed()
	if err != nil {
		return nil, err
	}
	defer in.Close()
	task := p.Start("write", blob.ShortHash(diffID), size)
	defer task.Done()
	return blob.PackLayer(packLevel, func(w io.Writer) error {
		_, err := blob.CopyTo(ctx, w, in, task)
		return err
	})
}

// packLevel is half the work of gzip's default level, 6, for 2 % more bytes, measured on an
// old userland.
const packLevel = 3
