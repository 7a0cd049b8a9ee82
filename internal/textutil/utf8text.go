// Reads texts from the user in any of their encodings: Windows PowerShell writes UTF-16 when
// the output of a command is redirected to a file.

package textutil

import (
	"io"

	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/transform"
)

// UTF8 reads a text that begins with a byte order mark as UTF-8 without it, and anything else as it is.
func UTF8(r io.Reader) io.Reader {
	return transform.NewReader(r, unicode.BOMOverride(transform.Nop))
}
