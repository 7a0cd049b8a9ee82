// Package quote writes words so that a shell, or YAML, reads the very same ones back.
package quote

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// plain are the characters, beside letters and digits of ASCII, that mean themselves in a
// shell word and, behind a letter, digit or slash, also in YAML.
const plain = "/._-+@%"

func isPlain(s, more string) bool {
	for _, r := range s {
		if r >= unicode.MaxASCII || !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune(plain+more, r) {
			return false
		}
	}
	return s != ""
}

// Shell quotes a word for a POSIX shell. A word with characters that would write to a
// terminal is put as $'…' (POSIX.1-2024, 2.2.4; bash, zsh, ksh and busybox have had it).
func Shell(s string) string {
	if isPlain(s, ":,=") {
		return s
	}
	if utf8.ValidString(s) && strings.IndexFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) < 0 {
		return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
	}
	var b strings.Builder
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		switch {
		case r == '\'' || r == '\\':
			b.WriteString(`\` + string(r))
		case unicode.IsPrint(r) && (r != utf8.RuneError || n > 1):
			b.WriteRune(r)
		default: // byte by byte, in octal: the one escape that ends after three digits
			for _, c := range []byte(s[:n]) {
				fmt.Fprintf(&b, `\%03o`, c)
			}
		}
		s = s[n:]
	}
	return "$'" + b.String() + "'"
}

// Path is Shell for the name of a file, or of the source of an image: one that begins with a hyphen is not an
// option, and - alone is stdin.
func Path(s string) string {
	if strings.HasPrefix(s, "-") && s != "-" {
		s = "./" + s
	}
	return Shell(s)
}

// Words is a command line of which a shell makes these words.
func Words(words []string) string {
	out := make([]string, len(words))
	for i, w := range words {
		out[i] = Shell(w)
	}
	return strings.Join(out, " ")
}

// YAML quotes a scalar: plain if it can only be a text, else in double quotes,
// whose escapes are those of Go (YAML 1.2.2, 5.7).
func YAML(s string) string {
	if isPlain(s, "") && strings.HasPrefix(s, "/") || isWord(s) {
		return s
	}
	return strconv.Quote(s)
}

// isWord says that s begins with a letter and is not one of the words that YAML 1.1 takes for a
// boolean or nothing.
func isWord(s string) bool {
	if !isPlain(s, "") || !unicode.IsLetter(rune(s[0])) {
		return false
	}
	switch strings.ToLower(s) {
	case "y", "n", "yes", "no", "on", "off", "true", "false", "null":
		return false
	}
	return true
}
