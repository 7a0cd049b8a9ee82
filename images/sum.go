package images

import (
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"io"
)

// sum counts and hashes what is written to it.
type sum struct {
	h hash.Hash
	n int64
}

func newSum() *sum { return &sum{h: sha256.New()} }

func (s *sum) Write(p []byte) (int, error) {
	s.n += int64(len(p))
	return s.h.Write(p)
}

// stated is what was written, as a statement says it.
func (s *sum) stated() StatedBytes {
	return StatedBytes{Size: s.n, SHA256: hex.EncodeToString(s.h.Sum(nil))}
}

// hashOf reads r to its end.
func hashOf(r io.Reader) (StatedBytes, error) {
	s := newSum()
	_, err := io.Copy(s, r)
	return s.stated(), err
}
