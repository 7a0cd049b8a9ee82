// Words quoted so that a shell reads the very same ones back.

package textutil

import (
	"fmt"
	"path"
	"strings"
	"unicode"
	"unicode/utf8"
)

// plain are the characters, beside letters and digits of ASCII, that mean themselves in a
// shell word.
const plain = "/._-+@%"

func isPlain(s, more string) bool {
	for _, r := range s {
		if r >= unicode.MaxASCII || !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune(plain+more, r) {
			return false
		}
	}
	return s != ""
}

// Quote quotes a word for a POSIX shell. A word with characters that would write to a
// terminal is put as $'…' (POSIX.1-2024, 2.2.4; bash, zsh, ksh and busybox have had it).
func Quote(s string) string {
	if isPlain(s, ":,=") {
		return s
	}
	if utf8.ValidString(s) && strings.IndexFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) < 0 {
		return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
	}
	var b strings.Builder
	for _, c := range []byte(s) {
		switch {
		case c == '\'' || c == '\\':
			b.WriteString(`\` + string(c))
		case c >= ' ' && c <= '~':
			b.WriteByte(c)
		default: // in octal: the one escape that ends after three digits
			fmt.Fprintf(&b, `\%03o`, c)
		}
	}
	return "$'" + b.String() + "'"
}

// QuotePath is Quote for the name of a file, or of the source of an image: one that begins with a hyphen is not an
// option, and - alone is stdin.
func QuotePath(s string) string {
	if strings.HasPrefix(s, "-") && s != "-" {
		s = "./" + s
	}
	return Quote(s)
}

// QuoteWords is a command line of which a shell makes these words.
func QuoteWords(words []string) string {
	out := make([]string, len(words))
	for i, w := range words {
		out[i] = Quote(w)
	}
	return strings.Join(out, " ")
}

// CopyName is the name of a patched copy of the file or directory at a path, for the working directory.
func CopyName(name string) string {
	base := strings.TrimLeft(path.Base(name), ".-/")
	if base == "" { // of "." and "/"
		return "fixed"
	}
	return base + ".vfix"
}
