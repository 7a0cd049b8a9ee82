package registry

// What only the tests of this package see.

type (
	Guard = guard
)

var (
	CheckRedirect = checkRedirect
	RetryAfter    = retryAfter
)

var ErrPlainHTTP = errPlainHTTP
