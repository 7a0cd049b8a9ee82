package images

import (
	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// Foreign layers, which OCI calls non-distributable (image-spec, layer.md,
// "Non-Distributable Layers"): an image names them, with URLs of somebody else who has them,
// and need not hold them. vfix keeps their descriptors as they are and asks no URL in an
// image for anything: what is not at hand is passed over.

func isForeign(l v1.Layer) bool {
	t, err := bare(l).MediaType()
	return err == nil && !t.IsDistributable()
}

// atHand reports whether a layer may be read: a foreign one of a registry would be asked for
// where its URLs say (go-containerregistry, pkg/v1/remote/image.go).
func atHand(l v1.Layer) bool {
	if !isForeign(l) {
		return true
	}
	_, stored := bare(l).(*storedLayer)
	return stored
}

// foreignLayer stands for a layer that is not at hand: nothing is known to be in it.
func foreignLayer(l v1.Layer, p Progress) (*layerIndex, error) {
	diffID, err := l.DiffID()
	if err != nil {
		return nil, err
	}
	note(p, "layer %s: foreign, and not with the image: kept as it is and not examined", shortHash(diffID))
	return &layerIndex{title: "layer " + shortHash(diffID), diffID: diffID}, nil
}

// dockerDepth is how many layers docker's own stores take (moby, layer/layer_store.go,
// maxLayerDepth: the 127 of some drivers, less two for the container); containerd's takes
// the 500 of the kernel's overlay.
const dockerDepth = 125

// noteDepth says where the added layer is one too many for docker.
func noteDepth(layers int, p Progress) {
	if layers > dockerDepth {
		note(p, "the result has %d layers, and docker without containerd's image store takes %d: there it ends in 'max depth exceeded'", layers, dockerDepth)
	}
}
