// Package patterns reads the PATTERN of options: * is any text, ? any character.
package patterns

import (
	"regexp"
	"strings"
)

// Text is a pattern of a whole text.
func Text(pattern string) *regexp.Regexp { return regexp.MustCompile(`^` + expression(pattern) + `$`) }

// Image is a pattern of the whole name of an image, with or without its prefix (docker://) and its registry.
func Image(pattern string) *regexp.Regexp {
	return regexp.MustCompile(`^(?:[a-z-]+:(?://)?)?(?:[^/]+/)?` + expression(pattern) + `$`)
}

func expression(pattern string) string {
	return `(?s:` + strings.NewReplacer(`\*`, ".*", `\?`, ".").Replace(regexp.QuoteMeta(pattern)) + `)`
}
