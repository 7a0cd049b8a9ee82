package batch

// What only the tests of this package see.

var (
	FillTemplate = fillTemplate
)
