// Reading of untrusted binary formats.

package diagnose

import (
	"bytes"
	"fmt"
	"io"
)

// maxOffset is beyond every file, in bytes: io.ReaderAt takes signed offsets.
const maxOffset = 1 << 62

// readFull reads len(b) bytes at off, an offset in bytes; what names them. If the input is too short, the error
// is one that damaged makes; a read error is wrapped.
func readFull(r io.ReaderAt, b []byte, off uint64, what string, damaged func(format string, args ...any) error) error {
	if off > maxOffset {
		return damaged("%s at offset %#x: beyond any file", what, off)
	}
	n, err := r.ReadAt(b, int64(off))
	if n == len(b) {
		return nil
	}
	if err == nil || err == io.EOF || err == io.ErrUnexpectedEOF {
		return damaged("cut off: %s needs %d bytes at offset %d, the file ends at %d", what, len(b), off, off+uint64(n))
	}
	return fmt.Errorf("%s: %w", what, err)
}

// cString returns b up to its first NUL, or all of it.
func cString(b []byte) string {
	text, _, _ := bytes.Cut(b, []byte{0})
	return string(text)
}
