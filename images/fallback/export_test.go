package fallback

// What only the tests of this package see.

const (
	PlainLine    = plainLine
	PlatformLine = platformLine
)
