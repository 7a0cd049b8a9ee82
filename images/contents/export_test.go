package contents

// For the tests of this package alone.

type (
	Examiner   = examiner
	LayerIndex = layerIndex
)

var (
	NewLayerCache = newLayerCache
)
