package atomicfile

// What only the tests of this package see.

const (
	LockPoll   = lockPoll
	LockSuffix = lockSuffix
)

var (
	HeldPrefix = heldPrefix
)
