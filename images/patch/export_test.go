package patch

// What only the tests of this package see.

const (
	StampMargin = stampMargin
)

type (
	Stamp = stamp
)
