package images

// What only the tests of this package see.

const (
	DropInTag     = dropInTag
	KeyBaseDigest = keyBaseDigest
	KeyBaseName   = keyBaseName
	KeyVersion    = keyVersion
)

type (
	Derivation = derivation
)

var (
	Derive     = derive
	EditConfig = editConfig
)
