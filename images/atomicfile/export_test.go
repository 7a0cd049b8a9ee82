package atomicfile

// For the tests of this package alone.

const (
	LockPoll   = lockPoll
	LockSuffix = lockSuffix
)

var (
	HeldPrefix = heldPrefix
)
