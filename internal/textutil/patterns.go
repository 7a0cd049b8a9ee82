// Reads the PATTERN of options: * is any text, ? any character. Bytes that are not UTF-8
// are like any other such byte.

package textutil

import (
	"regexp"
	"strings"
)

// Pattern is a pattern of a whole text.
func Pattern(pattern string) *regexp.Regexp {
	return regexp.MustCompile(`^` + expression(pattern) + `$`)
}

// ImagePattern is a pattern of the whole name of an image, with or without its prefix (docker://) and its registry.
func ImagePattern(pattern string) *regexp.Regexp {
	return regexp.MustCompile(`^(?:[a-z-]+:(?://)?)?(?:[^/]+/)?` + expression(pattern) + `$`)
}

func expression(pattern string) string {
	valid := string([]rune(pattern)) // regexp rejects invalid UTF-8, and reads it as U+FFFD in a text
	return `(?s:` + strings.NewReplacer(`\*`, ".*", `\?`, ".").Replace(regexp.QuoteMeta(valid)) + `)`
}
