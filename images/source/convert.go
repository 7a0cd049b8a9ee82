// Making an image fit for another place: layers are compressed, media types become OCI's.

package source

import (
	"cmp"
	"context"
	"encoding/json"
	"io"
	"reflect"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"vfix.dev/vfix/images/blob"
)

// dockerLayerZstd is a media type of docker's kind that buildkit and containerd have (containerd,
// core/images/mediatypes.go) and go-containerregistry has no name for.
const dockerLayerZstd types.MediaType = "application/vnd.docker.image.rootfs.diff.tar.zstd"

// ociNames are docker's media types in OCI: the formats are the same (image-spec media-types.md, "Compatibility
// Matrix").
var ociNames = map[types.MediaType]types.MediaType{
	types.DockerManifestSchema2:   types.OCIManifestSchema1,
	types.DockerConfigJSON:        types.OCIConfigJSON,
	types.DockerLayer:             types.OCILayer,
	dockerLayerZstd:               types.OCILayerZStd,
	types.DockerUncompressedLayer: types.OCIUncompressedLayer,
}

// OCIName is the OCI media type for a docker one, and t for others.
func OCIName(t types.MediaType) types.MediaType { return cmp.Or(ociNames[t], t) }

// IsLayer reports whether a media type is that of a layer as a tar stream, compressed or not.
func IsLayer(t types.MediaType) bool { return t.IsLayer() || t == dockerLayerZstd }

// packLevel is half the work of gzip's default level, 6, for 2 % more bytes, measured on an old userland.
const packLevel = 3

// portable makes an image fit for a place. Registries and layouts get compressed layers, docker archives none of zstd,
// which docker load before 23.0 does not read; in layouts the docker media types become OCI's: umoci reads no others
// there. An image that needs nothing is returned as it is. done, which is never nil, releases the resources of the
// result.
func portable(ctx context.Context, img v1.Image, to Ref, o Options) (_ v1.Image, done func(), err error) {
	var made []*blob.PackedLayer
	done = func() {
		for _, l := range made {
			l.Close()
		}
	}
	m, err := img.Manifest()
	mediaType, terr := img.MediaType()
	layers, lerr := img.Layers()
	config, cerr := img.RawConfigFile()
	if err := cmp.Or(err, terr, lerr, cerr); err != nil {
		return nil, done, err
	}
	m.MediaType = mediaType
	was := m.DeepCopy()
	for n := range m.Layers {
		d := &m.Layers[n]
		unfit := d.MediaType == types.DockerUncompressedLayer
		if !to.HasManifests() {
			unfit = d.MediaType == types.OCILayerZStd || d.MediaType == dockerLayerZstd
		}
		if !unfit {
			continue
		}
		packed, err := pack(ctx, layers[n], o)
		if err != nil {
			return nil, done, err
		}
		made = append(made, packed)
		layers[n], d.Digest, d.Size, d.MediaType = packed, packed.PackedDigest, packed.PackedSize, types.DockerLayer
		if mediaType == types.OCIManifestSchema1 {
			d.MediaType = types.OCILayer
		}
	}
	if to.isLayout() {
		m.MediaType, m.Config.MediaType = OCIName(m.MediaType), OCIName(m.Config.MediaType)
		for n, d := range m.Layers {
			m.Layers[n].MediaType = OCIName(d.MediaType)
		}
	}
	if reflect.DeepEqual(m, was) {
		return img, done, nil
	}
	raw, err := json.Marshal(m)
	if err != nil {
		return nil, done, err
	}
	out, err := EditedImage(raw, config, layers)
	return out, done, err
}

// pack compresses a layer's content.
func pack(ctx context.Context, l v1.Layer, o Options) (*blob.PackedLayer, error) {
	in, err := blob.OpenLayer(ctx, l, o.Progress)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	return blob.PackLayer(packLevel, func(w io.Writer) error {
		_, err := blob.CopyTo(ctx, w, in, nil)
		return in.Wrap(err)
	})
}
