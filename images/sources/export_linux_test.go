package sources

// For the tests of this package alone.

const (
	ConfinedImage  = confinedImage
	ConfinedDir    = confinedDir
	ConfinedMemory = confinedMemory
	ConfinedFiles  = confinedFiles
)

var (
	ErrNotConfined = errNotConfined
	RunConfined    = runConfined
)
