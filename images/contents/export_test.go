package contents

// What only the tests of this package see.

var (
	NewLayerCache = newLayerCache
)
