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

// Media types that images in the wild have and go-containerregistry has no names for: buildkit's and containerd's of
// docker's kind (containerd, core/images/mediatypes.go).
const (
	dockerLayerZstd         types.MediaType = "application/vnd.docker.image.rootfs.diff.tar.zstd"
	dockerForeignLayerPlain types.MediaType = "application/vnd.docker.image.rootfs.foreign.diff.tar"
)

// ociNames are docker's media types in OCI: the formats are the same (image-spec media-types.md, "Compatibility
// Matrix").
var ociNames = map[types.MediaType]types.MediaType{
	types.DockerManifestSchema2:   types.OCIManifestSchema1,
	types.DockerConfigJSON:        types.OCIConfigJSON,
	types.DockerLayer:             types.OCILayer,
	dockerLayerZstd:               types.OCILayerZStd,
	types.DockerUncompressedLayer: types.OCIUncompressedLayer,
	types.DockerForeignLayer:      types.OCIRestrictedLayer,
	dockerForeignLayerPlain:       types.OCIUncompressedRestrictedLayer,
}

// OCIName is the OCI media type for a docker one, and t for others.
func OCIName(t types.MediaType) types.MediaType { return cmp.Or(ociNames[t], t) }

// IsLayer reports whether a media type is that of a layer as a tar stream, compressed or not.
func IsLayer(t types.MediaType) bool {
	return t.IsLayer() || t == dockerLayerZstd || t == dockerForeignLayerPlain
}

// IsForeign reports whether a layer is a foreign one, which OCI calls non-distributable (image-spec, layer.md): an
// image names it, with URLs of somebody else who has it. vfix keeps its descriptor and asks no URL for anything.
func IsForeign(l v1.Layer) bool {
	t, err := l.MediaType()
	return err == nil && !t.IsDistributable()
}

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
	was, err := img.Manifest()
	mediaType, terr := img.MediaType()
	layers, lerr := img.Layers()
	config, cerr := img.RawConfigFile()
	if err := cmp.Or(err, terr, lerr, cerr); err != nil {
		return nil, done, err
	}
	rename := func(t *types.MediaType) {
		if to.isLayout() {
			*t = OCIName(*t)
		}
	}
	was.MediaType = mediaType
	m := was.DeepCopy()
	rename(&m.MediaType)
	rename(&m.Config.MediaType)
	for n := range m.Layers {
		d := &m.Layers[n]
		unfit := d.MediaType == types.DockerUncompressedLayer
		if !to.HasManifests() {
			unfit = d.MediaType == types.OCILayerZStd || d.MediaType == dockerLayerZstd
		}
		if unfit {
			packed, err := pack(ctx, layers[n], o)
			if err != nil {
				return nil, done, err
			}
			made = append(made, packed)
			layers[n], d.Digest, d.Size = packed, packed.PackedDigest, packed.PackedSize
			if d.MediaType = types.DockerLayer; mediaType == types.OCIManifestSchema1 {
				d.MediaType = types.OCILayer
			}
		}
		rename(&d.MediaType)
		layers[n] = blob.AsType(layers[n], d.MediaType)
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
