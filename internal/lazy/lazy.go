// Package lazy makes what few runs of a program need when it is first needed, not at each start.
package lazy

import (
	"regexp"
	"sync"
)

// Regexp compiles an expression at its first use, and panics then if it is not valid.
func Regexp(expression string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expression) })
}
