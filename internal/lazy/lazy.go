// Package lazy makes values that few runs of a program need at their first use, not at each start.
package lazy

import (
	"regexp"
	"sync"
)

// Regexp compiles an expression at its first use, and panics then if it is not valid.
func Regexp(expression string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expression) })
}
