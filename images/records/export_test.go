package records

// For the tests of this package alone.

type (
	MD5Change = md5Change
)
