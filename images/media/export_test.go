package media

import (
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// For the tests of this package alone.

const (
	LayoutMarker  = layoutMarker
	MaxAMD64Level = maxAMD64Level
	DockerDepth   = dockerDepth
	MaxChain      = maxChain
	MaxLinks      = maxLinks
)

type (
	IndexText   = indexText
	LayoutBlobs struct{ Dir string }
	TarFile     = tarFile
)

var (
	BlobEntry      = blobEntry
	CheckImage     = checkImage
	DockerHosts    = dockerHosts
	FromLayout     = fromLayout
	NewLayout      = newLayout
	ParseIndexText = parseIndexText
	PlatformRank   = platformRank
	SameImageName  = sameImageName
	WriteDockerTar = writeDockerTar
	WriteOCITar    = writeOCITar
)

// Pick finds the platform's image in an index.
func Pick(idx v1.ImageIndex, want v1.Platform, depth int) (v1.Descriptor, v1.Image, error) {
	all, err := offers(idx, depth)
	if err != nil {
		return v1.Descriptor{}, nil, err
	}
	best, err := bestOf(all, want)
	if err != nil {
		return best.Descriptor, nil, err
	}
	img, err := best.in.Image(best.Digest)
	return best.Descriptor, img, err
}

// Path is the path of a blob in a layout.
func (l LayoutBlobs) Path(h v1.Hash) string { return filepath.Join(l.Dir, blobEntry(h)) }
