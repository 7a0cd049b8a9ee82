package schema1

// What only the tests of this package see.

const (
	MaxSignatures = maxSignatures
)
