package records

// What only the tests of this package see.

type (
	MD5Change = md5Change
)
