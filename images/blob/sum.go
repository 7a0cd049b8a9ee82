// The size and SHA-256 of a content.

package blob

import (
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"io"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// sum counts and hashes what is written to it.
type sum struct {
	h hash.Hash
	n int64
}

// NewSum has seen no bytes yet.
func NewSum() *sum { return &sum{h: sha256.New()} }

func (s *sum) Write(p []byte) (int, error) {
	s.n += int64(len(p))
	return s.h.Write(p)
}

// Stated is the size and hash of what was written, in the form of a statement.
func (s *sum) Stated() StatedBytes {
	return StatedBytes{Size: s.n, SHA256: hex.EncodeToString(s.h.Sum(nil))}
}

// HashOf reads r to its end.
func HashOf(r io.Reader) (StatedBytes, error) {
	s := NewSum()
	_, err := io.Copy(s, r)
	return s.Stated(), err
}

// Sha256Hash is the current digest of a SHA-256.
func Sha256Hash(h hash.Hash) v1.Hash {
	return v1.Hash{Algorithm: "sha256", Hex: hex.EncodeToString(h.Sum(nil))}
}

// StatedBytes is one content: its size in bytes and its SHA-256 in hex.
type StatedBytes struct {
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
}
