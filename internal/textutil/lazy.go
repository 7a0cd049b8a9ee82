// Makes values that few runs of a program need at their first use, not at each start.

// Package textutil has what several packages do with texts of users: quoting for a shell, redaction of credentials, patterns,
// expressions that are compiled when they are needed, texts in UTF-16.
package textutil

import (
	"regexp"
	"sync"
)

// LazyRegexp compiles an expression at its first use, and panics then if it is not valid.
func LazyRegexp(expression string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expression) })
}
