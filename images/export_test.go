package images

// For the tests of this package alone.

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

var (
	Destinations  = destinations
	PushName      = pushName
	BaseReference = baseReference
	Elsewhere     = elsewhere
)
