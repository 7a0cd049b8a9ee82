// Output for a locale without UTF-8: LANG=C.

package screen

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// PlainASCII reports whether the locale says that only ASCII can be shown (locale(7)). No locale at all, as in most
// containers, says nothing.
func PlainASCII(getenv func(string) string) bool {
	locale := cmp.Or(getenv("LC_ALL"), getenv("LC_CTYPE"), getenv("LANG"))
	return locale == "C" || locale == "POSIX"
}

// ascii writes to w what it is given, in ASCII.
type ascii struct{ w io.Writer }

func (a ascii) Write(p []byte) (int, error) {
	if _, err := io.WriteString(a.w, InASCII(lookalikes.Replace(string(p)))); err != nil {
		return 0, err
	}
	return len(p), nil
}

// lookalikes are for the signs that vfix itself prints.
var lookalikes = strings.NewReplacer("…", "...", "–", "-", "µ", "u")

// InASCII escapes what is not ASCII, as JSON does.
func InASCII(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case r < utf8.RuneSelf:
			b.WriteByte(s[i])
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&b, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
		i += n
	}
	return b.String()
}
