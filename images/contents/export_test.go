package contents

// What only the tests of this package see.

type (
	Examiner   = examiner
	LayerIndex = layerIndex
)

var (
	NewLayerCache = newLayerCache
)
