package media

// For the tests of this package alone.

const (
	LayoutMarker  = layoutMarker
	MaxAMD64Level = maxAMD64Level
)

type (
	IndexText   = indexText
	LayoutBlobs = layoutBlobs
	TarFile     = tarFile
)

var (
	BlobEntry      = blobEntry
	CheckImage     = checkImage
	DockerHosts    = dockerHosts
	FromLayout     = fromLayout
	NewLayout      = newLayout
	ParseIndexText = parseIndexText
	Pick           = pick
	PlatformRank   = platformRank
	SameImageName  = sameImageName
)
