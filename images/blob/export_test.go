package blob

// What only the tests of this package see.

type (
	ChildReader = childReader
	LayerStream = layerStream
)

var (
	StartChild = startChild
)
