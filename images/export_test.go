package images

import (
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"vfix.dev/vfix/images/blob"
	"vfix.dev/vfix/images/source"
)

// For the tests of this package alone.

const (
	DropInTag     = dropInTag
	KeyBaseDigest = keyBaseDigest
	KeyBaseName   = keyBaseName
	KeyVersion    = keyVersion
)

// EditConfig adds a layer to an image config.
func EditConfig(raw []byte, layers int, diffID v1.Hash, traced bool) ([]byte, error) {
	return editConfig(raw, layers, diffID, origin{version: "1"}, &changes{traced: traced})
}

// WithLayer is an image that a rebuild made of base, with this layer.
func WithLayer(base v1.Image, added *blob.PackedLayer) (v1.Image, error) {
	digest, err := base.Digest()
	if err != nil {
		return nil, err
	}
	c := &changes{}
	c.addFixes()
	return newDerivedImage(&source.Source{Image: base}, added, origin{"base", digest.String(), "1.2", "fallback=never"}, c)
}

// EditManifest adds a layer to the manifest of a docker image, which becomes an OCI image.
func EditManifest(raw string, added *blob.PackedLayer) ([]byte, error) {
	return editManifest([]byte(raw), []byte("{}"), types.DockerManifestSchema2, source.OCIName, added, origin{version: "1"})
}

// Same are the problems of a JSON text that should be another one.
func Same(want, got string) []string {
	v := &Verified{}
	v.members("x", parsed([]byte(want)), parsed([]byte(got)))
	return v.Problems
}

// ScanLoads examines what the programs in findings load.
var ScanLoads = scanLoads
