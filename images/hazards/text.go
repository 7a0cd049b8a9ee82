// Searching a file for words, in pieces: it may be large, and little of it is of interest.

package hazards

import (
	"bytes"
	"errors"
	"io"
)

const (
	piece = 1 << 20 // bytes read at once
	// context is how many bytes before and behind a word are seen with it.
	context = 128
)

// text is a file's bytes.
type text struct {
	r    io.ReaderAt
	size int64
}

// each calls f with the bytes before and behind each occurrence of a word, up to context of each,
// until it returns false.
func (t *text) each(word string, f func(before, after []byte) bool) error {
	buf := make([]byte, piece)
	// Pieces overlap, so that what is near a border is seen with its surroundings in one of them.
	step := int64(piece - 2*context - len(word))
	for at := int64(0); ; at += step {
		n, err := t.r.ReadAt(buf[:min(piece, t.size-at)], at)
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		b := buf[:n]
		for i := 0; ; {
			k := bytes.Index(b[i:], []byte(word))
			if k < 0 {
				break
			}
			k += i
			i = k + len(word)
			// The first and last bytes belong to the neighbouring pieces.
			if at != 0 && k < context || at+piece < t.size && k >= context+int(step) {
				continue
			}
			if !f(b[max(0, k-context):k], b[i:min(len(b), i+context)]) {
				return nil
			}
		}
		if at+piece >= t.size {
			return nil
		}
	}
}

func (t *text) has(word string) (found bool, err error) {
	err = t.each(word, func(_, _ []byte) bool { found = true; return false })
	return found, err
}

// until returns the bytes before the first of the given characters or a zero; or "".
func until(b []byte, chars string) string {
	return string(b[:max(0, bytes.IndexAny(b, chars+"\x00"))])
}
