package schema1

// For the tests of this package alone.

const (
	MaxSignatures = maxSignatures
)
