// Media types that go-containerregistry has no names for, and OCI's names for docker's.

package media

import "github.com/google/go-containerregistry/pkg/v1/types"

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

// OCIName is the OCI media type for what a media type of an image names: t itself where that
// is no name of docker's.
func OCIName(t types.MediaType) types.MediaType {
	if oci, ok := ociNames[t]; ok {
		return oci
	}
	return t
}
