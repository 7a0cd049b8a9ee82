// Foreign layers, which OCI calls non-distributable (image-spec, layer.md,
// "Non-Distributable Layers"): an image names them, with URLs of somebody else who has them,
// and need not hold them. vfix keeps their descriptors as they are and asks no URL in an
// image for anything: what is not at hand is passed over.

package media

import (
	v1 "github.com/google/go-containerregistry/pkg/v1"

	"vfix.dev/vfix/images/blob"
	"vfix.dev/vfix/images/registry"
	"vfix.dev/vfix/internal/progress"
)

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
	l = blob.Underlying(l)
	_, stored := l.(*blob.StoredLayer)
	_, remote := registry.OriginOf(l)
	return stored && !remote
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
