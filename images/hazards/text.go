// Searching a file for words.

package hazards

import (
	"bytes"
	"errors"
	"io"
)

const (
	// maxFile is the largest file that is searched, in bytes: libjvm.so, the largest, has 20 MiB.
	maxFile = 48 << 20
	// context is how many bytes before and behind a word are seen with it.
	context = 128
)

// text is a file's bytes.
type text []byte

// read reads a file; one that is too large is empty.
func read(r io.ReaderAt, size int64) (text, error) {
	if size > maxFile {
		return nil, nil
	}
	b := make([]byte, size)
	n, err := r.ReadAt(b, 0)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return b[:n], err
}

// each calls f with the bytes before and behind each occurrence of a word, up to context of each,
// until it returns false.
func (t text) each(word string, f func(before, after []byte) bool) {
	for i := 0; ; {
		at := bytes.Index(t[i:], []byte(word))
		if at < 0 {
			return
		}
		at += i
		i = at + len(word)
		if !f(t[max(0, at-context):at], t[i:min(len(t), i+context)]) {
			return
		}
	}
}

func (t text) has(word string) bool { return bytes.Contains(t, []byte(word)) }

// until returns the bytes before the first of the given characters or a zero; or "".
func until(b []byte, chars string) string {
	return string(b[:max(0, bytes.IndexAny(b, chars+"\x00"))])
}
