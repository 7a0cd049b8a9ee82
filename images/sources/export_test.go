package sources

// What only the tests of this package see.

const (
	SIFDescriptorLen = sifDescriptorLen
	SIFMagicAt       = sifMagicAt
	SIFTotalAt       = sifTotalAt
	SquashBlockAt    = squashBlockAt
	SquashCompressAt = squashCompressAt
	SquashMagic      = squashMagic
	SquashSuperLen   = squashSuperLen
)

type (
	SIFFile = sifFile
)

var (
	LoadSIF   = loadSIF
	MergeTars = mergeTars
)
