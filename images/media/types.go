// Media types that go-containerregistry has no names for, and OCI's names for docker's.

package media

import (
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"vfix.dev/vfix/images/blob"
	"vfix.dev/vfix/images/registry"
	"vfix.dev/vfix/internal/progress"
)

// Media types that images in the wild have and go-containerregistry has no names for:
// buildkit's and containerd's of docker's kind (containerd, core/images/mediatypes.go).
const (
	dockerLayerZstd         types.MediaType = "application/vnd.docker.image.rootfs.diff.tar.zstd"
	dockerForeignLayerPlain types.MediaType = "application/vnd.docker.image.rootfs.foreign.diff.tar"
)

// ociNames is what docker's media types are called in OCI: the formats are the same
// (image-spec media-types.md, "Compatibility Matrix").
var ociNames = map[types.MediaType]types.MediaType{
	types.DockerManifestSchema2:   types.OCIManifestSchema1,
	types.DockerConfigJSON:        types.OCIConfigJSON,
	types.DockerLayer:             types.OCILayer,
	dockerLayerZstd:               types.OCILayerZStd,
	types.DockerUncompressedLayer: types.OCIUncompressedLayer,
	types.DockerForeignLayer:      types.OCIRestrictedLayer,
	dockerForeignLayerPlain:       types.OCIUncompressedRestrictedLayer,
}

// IsLayer reports whether a media type is that of a layer as a tar stream, compressed or not.
func IsLayer(t types.MediaType) bool {
	return t.IsLayer() || t == dockerLayerZstd || t == dockerForeignLayerPlain
}

// OCIName is the OCI media type for what a media type of an image names: t itself if that
// is not docker's name.
func OCIName(t types.MediaType) types.MediaType {
	if oci, ok := ociNames[t]; ok {
		return oci
	}
	return t
}

// Foreign layers, which OCI calls non-distributable (image-spec, layer.md,
// "Non-Distributable Layers"): an image names them, with URLs of somebody else who has them,
// and need not hold them. vfix keeps their descriptors as they are and asks no URL in an
// image for anything: missing layers are skipped.

// IsForeign reports whether the media type of a layer is that of a foreign one.
func IsForeign(l v1.Layer) bool {
	t, err := blob.Underlying(l).MediaType()
	return err == nil && !t.IsDistributable()
}

// AtHand reports whether a layer may be read: a foreign one only if a layout or archive has it, as registries need not.
func AtHand(l v1.Layer) bool {
	if !IsForeign(l) {
		return true
	}
	from := blob.From(l)
	_, remote := from.(registry.Remote)
	return from != nil && !remote
}

// dockerDepth is how many layers docker's own stores take (moby, layer/layer_store.go,
// maxLayerDepth: the 127 of some drivers, less two for the container); containerd's takes
// the 500 of the kernel's overlay.
const dockerDepth = 125

// NoteDepth says where the added layer is one too many for docker.
func NoteDepth(layers int, p progress.Reporter) {
	if layers > dockerDepth {
		progress.Note(p, "the result has %d layers, and docker without containerd's image store takes %d: there it ends in 'max depth exceeded'", layers, dockerDepth)
	}
}
